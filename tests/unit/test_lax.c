/*
 * Numbers as Pydantic 2.12.5 takes them in lax mode: the expectations below are its answers (bools,
 * which contract.md refuses, aside).
 */
#include "tests/unit/test.h"

#include "ipc/lax.h"

#include <math.h>

static enum lax
integer_of(const char *json, int64_t *out)
{
	struct json_doc *doc;
	enum lax result;

	*out = 0;
	if (json_parse(&doc, json, strlen(json), NULL) != 0)
		return LAX_TYPE;
	result = lax_integer(json_root(doc), out);
	json_free(doc);
	return result;
}

TEST(integers)
{
	static const struct {
		const char *json;
		enum lax result;
		int64_t value;
	} cases[] = {
	    {"8", LAX_OK, 8},
	    {"-0", LAX_OK, 0},
	    {"8.0", LAX_OK, 8},
	    {"80e-1", LAX_OK, 8},
	    {"-0.0", LAX_OK, 0},
	    {"1e-400", LAX_OK, 0},
	    {"8.5", LAX_FRACTION, 0},
	    {"1e400", LAX_NONFINITE, 0},
	    {"9223372036854775807", LAX_OK, INT64_MAX},
	    {"9223372036854775808", LAX_OK, INT64_MAX}, /* saturated: Python has no bound */
	    {"-9223372036854775809", LAX_OK, INT64_MIN},
	    {"9223372036854774784.0", LAX_OK, 9223372036854774784},
	    {"9223372036854775808.0", LAX_SIZE, 0},
	    {"-9223372036854775808.0", LAX_SIZE, 0},
	    {"\"+008.00\"", LAX_OK, 8},
	    {"\" \\t8\\n\"", LAX_OK, 8},
	    {"\"\\u00a0\\u20038\\u3000\"", LAX_OK, 8},
	    {"\"\\u200b8\"", LAX_PARSE, 0},
	    {"\"1_0\"", LAX_OK, 10},
	    {"\"1__0\"", LAX_PARSE, 0},
	    {"\"0__8\"", LAX_OK, 8},
	    {"\"_1\"", LAX_PARSE, 0},
	    {"\"1_\"", LAX_PARSE, 0},
	    {"\"1_.0\"", LAX_PARSE, 0},
	    {"\"8.\"", LAX_PARSE, 0},
	    {"\".0\"", LAX_PARSE, 0},
	    {"\"8.5\"", LAX_PARSE, 0},
	    {"\"1e1\"", LAX_PARSE, 0},
	    {"\"0x8\"", LAX_PARSE, 0},
	    {"\"+-8\"", LAX_PARSE, 0},
	    {"\"\"", LAX_PARSE, 0},
	    {"\"-0\"", LAX_OK, 0},
	    {"true", LAX_TYPE, 0},
	    {"null", LAX_TYPE, 0},
	    {"[8]", LAX_TYPE, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t got;
		enum lax result = integer_of(cases[i].json, &got);

		CHECK_MSG(result == cases[i].result, "%s: %d", cases[i].json, (int)result);
		CHECK_MSG(got == cases[i].value, "%s: %lld", cases[i].json, (long long)got);
	}
}

TEST(digits_of_a_long_string)
{
	char json[LAX_DIGITS_MAX + 8];
	int64_t got;

	memset(json, '1', sizeof(json));
	json[0] = json[LAX_DIGITS_MAX + 1] = '"';
	json[LAX_DIGITS_MAX + 2] = '\0';
	CHECK(integer_of(json, &got) == LAX_OK && got == INT64_MAX);
	memset(json, '1', sizeof(json));
	json[0] = json[LAX_DIGITS_MAX + 2] = '"';
	json[LAX_DIGITS_MAX + 3] = '\0';
	CHECK(integer_of(json, &got) == LAX_SIZE);
}

TEST(numbers)
{
	static const struct {
		const char *json;
		enum lax result;
		double value;
	} cases[] = {
	    {"1e-4", LAX_OK, 1e-4},
	    {"1", LAX_OK, 1},
	    {"1e400", LAX_OK, INFINITY},
	    {"\"1e-4\"", LAX_OK, 1e-4},
	    {"\" 1e-4\\n\"", LAX_OK, 1e-4},
	    {"\"+.5\"", LAX_OK, 0.5},
	    {"\"5.\"", LAX_OK, 5},
	    {"\"1_.5\"", LAX_OK, 1.5},
	    {"\"1e-0_4\"", LAX_OK, 1e-4},
	    {"\" 1_0\"", LAX_PARSE, 0}, /* not trimmed where an underscore stands */
	    {"\"1__0\"", LAX_PARSE, 0},
	    {"\"_1\"", LAX_PARSE, 0},
	    {"\"-Infinity\"", LAX_OK, -INFINITY},
	    {"\"iNf\"", LAX_OK, INFINITY},
	    {"\"infinit\"", LAX_PARSE, 0},
	    {"\"0x1p-3\"", LAX_PARSE, 0},
	    {"\"1e\"", LAX_PARSE, 0},
	    {"\".\"", LAX_PARSE, 0},
	    {"\"1e-4f\"", LAX_PARSE, 0},
	    {"\"0,1\"", LAX_PARSE, 0},
	    {"\"\"", LAX_PARSE, 0},
	    {"false", LAX_TYPE, 0},
	    {"{}", LAX_TYPE, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_doc *doc;
		double got = 0;
		enum lax result;

		CHECK(json_parse(&doc, cases[i].json, strlen(cases[i].json), NULL) == 0);
		result = lax_number(json_root(doc), &got);
		CHECK_MSG(result == cases[i].result, "%s: %d", cases[i].json, (int)result);
		CHECK_MSG(got == cases[i].value, "%s: %g", cases[i].json, got);
		json_free(doc);
	}
}

TEST(integer_too_large_for_a_float)
{
	char json[320];
	struct json_doc *doc;
	double got;

	memset(json, '1', sizeof(json));
	CHECK(json_parse(&doc, json, 310, NULL) == 0);
	CHECK(lax_number(json_root(doc), &got) == LAX_TYPE);
	json_free(doc);
}

TEST_MAIN(TEST_CASE(integers), TEST_CASE(digits_of_a_long_string), TEST_CASE(numbers),
    TEST_CASE(integer_too_large_for_a_float))
