/* Who may call, and which call a path is. */
#include <sodium.h>

#include "supervisor/http/auth.h"
#include "supervisor/http/http_conn.h"
#include "supervisor/http/percent.h"
#include "supervisor/api/routes.h"
#include "supervisor/settings/config.h"
#include "tests/unit/test.h"

#define TOKEN "0123456789abcdef"

static bool
allows(const char *fields)
{
	struct http_request r = {0};
	struct tokens *tokens;
	char text[1024], reason[256];
	bool allowed;
	int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", fields);

	CHECK(http_head_parse(&r.head, text, (size_t)len) == 0);
	CHECK(tokens_read(&tokens, &(struct config){.token = TOKEN}, reason) == 0);
	allowed = auth_name(&r, tokens) != NULL;
	tokens_free(tokens);
	http_head_fini(&r.head);
	return allowed;
}

TEST(token)
{
	CHECK(allows("Authorization: Bearer " TOKEN "\r\n"));
	CHECK(allows("AUTHORIZATION: \t Bearer " TOKEN "  \r\n"));
	CHECK(!allows(""));
	CHECK(!allows("Authorization:\r\n"));
	CHECK(!allows("Authorization: Bearer\r\n"));
	CHECK(!allows("Authorization: bearer " TOKEN "\r\n"));
	CHECK(!allows("Authorization: Bearer  " TOKEN "\r\n"));
	CHECK(!allows("Authorization: Bearer\t" TOKEN "\r\n"));
	CHECK(!allows("Authorization: Bearer " TOKEN "0\r\n"));
	CHECK(!allows("Authorization: Bearer 0123456789abcde\r\n"));
	CHECK(!allows("Authorization: Bearer 0123456789abcdeF\r\n"));
	CHECK(!allows("Authorization: Basic " TOKEN "\r\n"));
	CHECK(!allows("Authorization: B\xe9"
		      "arer " TOKEN "\r\n"));
	CHECK(!allows("Authorization: Bearer " TOKEN "\r\nAuthorization: Bearer " TOKEN "\r\n"));
	CHECK(!allows("Authorization: Bearer " TOKEN "\r\nAuthorization: Bearer x\r\n"));
}

TEST(matching)
{
	static const struct {
		const char *pattern, *path, *param; /* param NULL: no match; "": a match without */
	} table[] = {
	    {"/healthz", "/healthz", ""},
	    {"/healthz", "/%68ealthz", ""},
	    {"/healthz", "/healthz/", NULL},
	    {"/healthz", "/healthzz", NULL},
	    {"/healthz", "/health", NULL},
	    {"/healthz", "healthz", NULL},
	    {"/healthz", "//healthz", NULL},
	    {"/healthz", "/x/../healthz", NULL},
	    {"/v1/s/{id}", "/v1/s/abc", "abc"},
	    {"/v1/s/{id}", "/v1/s/a%2Fb", "a/b"},
	    {"/v1/s/{id}", "/v1/s/a/b", NULL},
	    {"/v1/s/{id}", "/v1/s/", NULL},
	    {"/v1/s/{id}", "/v1/s", NULL},
	    {"/v1/s/{id}", "/v1/s/a%00b", NULL},
	    {"/v1/s/{id}", "/v1/s/a%0", NULL},
	    {"/v1/s/{id}", "/v1/s/%zz", NULL},
	    {"/v1/s/{id}", "/v1%2Fs/a", NULL},
	    {"/v1/s/{id}/b:train", "/v1/s/a/b:train", "a"},
	    {"/v1/s/{id}/b:train", "/v1/s/a/b%3Atrain", "a"},
	    {"/v1/s/{id}/b:train", "/v1/s/a/b%3atrain", "a"},
	    {"/v1/s/{id}/b:train", "/v1/s/a/b:train:x", NULL},
	    {"/v1/s/{id}/b:train", "/v1/s/a/B:train", NULL},
	    {"/v1/s/{id}/b:train", "/v1/s/a", NULL},
	    {"/v1/s/{id}:go", "/v1/s/a:go", "a"},
	    {"/v1/s/{id}:go", "/v1/s/a%3Ago", "a"},
	    {"/v1/s/{id}:go", "/v1/s/a:go:go", "a:go"},
	    {"/v1/s/{id}:go", "/v1/s/:go", NULL},
	    {"/v1/s/{id}:go", "/v1/s/go", NULL},
	    {"/v1/s/{id}:go", "/v1/s/a:gone", NULL},
	    {"/v1/s/{id}:go", "/v1/s/a:go/b", NULL},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char *param;
		int rc = route_match(table[i].pattern, table[i].path, &param);

		CHECK_MSG(rc == (table[i].param != NULL), "%s %s", table[i].pattern, table[i].path);
		CHECK_MSG((param == NULL) == (table[i].param == NULL || *table[i].param == '\0'),
		    "%s", table[i].path);
		if (param != NULL && table[i].param != NULL)
			CHECK_STR(param, table[i].param);
		free(param);
	}
}

TEST(queries)
{
	struct http_request r = {.head = {.query = "a=1&b=%41%20+&c&=x&a=2&d=%zz&%65=f"}};

	CHECK_STR(http_query(&r, "a"), "1");
	CHECK_STR(http_query(&r, "b"), "A +");
	CHECK_STR(http_query(&r, "c"), "");
	CHECK_STR(http_query(&r, "e"), "f");
	CHECK(http_query(&r, "d") == NULL && http_query(&r, "g") == NULL);
	free(r.query);
}

TEST(json_types)
{
	static const struct {
		const char *type;
		bool json;
	} table[] = {
	    {"application/json", true},
	    {"Application/JSON; Charset=UTF-8", true},
	    {"application/json;", true},
	    {"application/json ; a=b", true},
	    {"application/vnd.stepd.v1+json", true},
	    {"application/problem+JSON;q=1", true},
	    {"application/xjson", false},
	    {"application/jsonx", false},
	    {"application/x-ndjson", false},
	    {"text/json", false},
	    {"text/plain+json", false},
	    {"json", false},
	    {"", false},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct http_request r = {.head = {.count = 1}};

		r.head.fields[0] = (struct http_field){"content-type", table[i].type};
		CHECK_MSG(http_is_json(&r) == table[i].json, "%s", table[i].type);
	}
}

TEST_MAIN(TEST_CASE(token), TEST_CASE(matching), TEST_CASE(queries), TEST_CASE(json_types))
