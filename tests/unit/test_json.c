/* JSON reading and writing. Error offsets are those that Python 3.11's json reports. */
#include <math.h>

#include "ipc/json.h"
#include "ipc/json_write.h"
#include "tests/unit/test.h"

static struct json_doc *
parse(const char *text)
{
	struct json_doc *doc;
	struct json_error err;

	if (json_parse(&doc, text, strlen(text), &err) != 0)
		return NULL;
	return doc;
}

TEST(values)
{
	struct json_doc *doc =
	    parse(" {\"a\": [1, -2.5e3, true, null], \"b\": \"x\\ny\\u00e9\\ud83d\\ude00\","
		  " \"a\": 7, \"\": {}} ");
	struct json root, b;
	int64_t i;
	size_t len;

	CHECK(doc != NULL);
	root = json_root(doc);
	CHECK(json_count(root) == 4);
	CHECK(json_count(json_first(root)) == 4);
	CHECK(json_int64(json_get(root, "a"), &i) && i == 7);
	b = json_get(root, "b");
	CHECK_STR(json_string(b, &len), "x\ny\xc3\xa9\xf0\x9f\x98\x80");
	CHECK(len == 9);
	CHECK_STR(json_key(b, &len), "b");
	CHECK(json_is(json_get(root, ""), JSON_OBJECT));
	CHECK(!json_exists(json_get(root, "c")));
	CHECK(json_doc_flags(doc) == 0);
	json_free(doc);
}

TEST(numbers)
{
	struct json_doc *doc =
	    parse("[1e400, 18446744073709551616, 9223372036854775807, -0.0, 1.0]");
	struct json v = json_first(json_root(doc));
	double d;
	int64_t i;

	CHECK(json_double(v, &d) && isinf(d));
	CHECK(!json_int64(v, &i));
	v = json_next(v);
	CHECK(!json_int64(v, &i));
	CHECK_STR(json_number(v, NULL), "18446744073709551616");
	v = json_next(v);
	CHECK(json_int64(v, &i) && i == INT64_MAX);
	v = json_next(v);
	CHECK(json_double(v, &d) && d == 0 && signbit(d));
	v = json_next(v);
	CHECK(!json_int64(v, &i));
	CHECK(!json_exists(json_next(v)));
	json_free(doc);
}

TEST(faults)
{
	static const struct {
		const char *text;
		size_t offset;
		enum json_fault fault;
	} cases[] = {{"", 0, JSON_FAULT_SYNTAX}, {"{", 1, JSON_FAULT_SYNTAX},
	    {"{\"a\":", 5, JSON_FAULT_SYNTAX}, {"{\"a\":1,}", 7, JSON_FAULT_SYNTAX},
	    {"[1,]", 3, JSON_FAULT_SYNTAX}, {"{'a':1}", 1, JSON_FAULT_SYNTAX},
	    {"{\"a\" 1}", 5, JSON_FAULT_SYNTAX}, {"[1 2]", 3, JSON_FAULT_SYNTAX},
	    {"1x", 1, JSON_FAULT_SYNTAX}, {"01", 1, JSON_FAULT_SYNTAX},
	    {"[.5]", 1, JSON_FAULT_SYNTAX}, {"[8.]", 2, JSON_FAULT_SYNTAX},
	    {"\"\\u12\"", 2, JSON_FAULT_SYNTAX}, {"\"a\tb\"", 2, JSON_FAULT_SYNTAX},
	    {"\"\xc3\xa9", 0, JSON_FAULT_SYNTAX}, {"[\"\xc3\xa9\" x]", 5, JSON_FAULT_SYNTAX},
	    {"\"\\x\"", 1, JSON_FAULT_SYNTAX}, {"\"\xff\"", 1, JSON_FAULT_UTF8},
	    {"\"\xc0\xaf\"", 1, JSON_FAULT_UTF8}, {"\"\xed\xa0\x80\"", 1, JSON_FAULT_UTF8},
	    {"nul", 0, JSON_FAULT_SYNTAX}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct json_doc *doc;
		struct json_error err;
		int rc = json_parse(&doc, cases[i].text, strlen(cases[i].text), &err);

		CHECK_MSG(rc < 0, "%s parsed", cases[i].text);
		CHECK_MSG(err.offset == cases[i].offset && err.fault == cases[i].fault,
		    "%s: offset %zu", cases[i].text, err.offset);
	}
}

TEST(depth)
{
	char text[300];
	struct json_doc *doc;
	struct json_error err;

	memset(text, '[', 65);
	memset(text + 65, ']', 65);
	CHECK(json_parse(&doc, text + 1, 128, &err) == 0);
	json_free(doc);
	CHECK(json_parse(&doc, text, 130, &err) < 0 && err.fault == JSON_FAULT_DEPTH);
}

TEST(flags)
{
	struct json_doc *doc = parse("[\"\\u0000\", NaN, \"\\udc00\\ud800\"]");

	CHECK(json_doc_flags(doc) == (JSON_HAS_NUL | JSON_HAS_NONFINITE | JSON_HAS_SURROGATE));
	json_free(doc);
	doc = parse("\xef\xbb\xbf[-Infinity]");
	CHECK(doc != NULL);
	json_free(doc);
}

TEST(writing)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "s", "a\"\\\n\x01\xc3\xa9\xff");
	json_put_double(&w, "d", 1e-5);
	json_put_double(&w, "e", 0.1);
	json_put_double(&w, "f", 2);
	json_put_double(&w, "inf", INFINITY);
	json_write_key(&w, "l");
	json_write_array(&w);
	json_write_int(&w, -1);
	json_write_object(&w);
	json_write_object_end(&w);
	json_write_bool(&w, true);
	json_write_array_end(&w);
	json_put_null(&w, "n");
	json_write_object_end(&w);
	CHECK_STR(json_writer_text(&w, NULL),
	    "{\"s\":\"a\\\"\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\",\"d\":1e-05,\"e\":0.1,\"f\":2.0,"
	    "\"inf\":null,\"l\":[-1,{},true],\"n\":null}");
	json_writer_fini(&w);
}

TEST(copying)
{
	static const char text[] = "{\"a\":[1.50,null,{\"b\":\"\\u0001\"}],\"c\":false,\"d\":{}}";
	struct json_doc *doc = parse(text);
	struct json_writer w;

	json_writer_init(&w);
	json_write_value(&w, json_root(doc));
	CHECK_STR(json_writer_text(&w, NULL), text);
	json_writer_fini(&w);
	json_free(doc);
}

TEST_MAIN(TEST_CASE(values), TEST_CASE(numbers), TEST_CASE(faults), TEST_CASE(depth),
    TEST_CASE(flags), TEST_CASE(writing), TEST_CASE(copying))
