/* Heads and chunks as RFC 9112 has them; expected results are read off the RFC. */
#include <stdbool.h>

#include "supervisor/http/http_chunk.h"
#include "supervisor/http/http_head.h"
#include "tests/unit/test.h"

#define HOST "Host: x\r\n"

/* The status that refuses a head, 0 if it is taken, 1 if it is not complete; scanned in pieces. */
static unsigned
judge_pieces(struct http_head *h, const char *text, size_t len, size_t piece)
{
	struct http_scan scan = {0};

	memset(h, 0, sizeof(*h));
	for (size_t at = 0; at < len; at += piece) {
		int rc = http_scan(&scan, text + at, len - at < piece ? len - at : piece);

		if (rc < 0)
			return (unsigned)-rc;
		if (rc == 1)
			return http_head_parse(h, text, scan.seen);
	}
	return 1;
}

static unsigned
judge(const char *text)
{
	struct http_head h;
	unsigned whole = judge_pieces(&h, text, strlen(text), strlen(text)), bytes;

	http_head_fini(&h);
	bytes = judge_pieces(&h, text, strlen(text), 1);
	http_head_fini(&h);
	CHECK_MSG(whole == bytes, "%u at once, %u byte by byte: %s", whole, bytes, text);
	return whole;
}

TEST(head_is_read)
{
	static const char text[] = "POST /v1/a%20b?c=d&e HTTP/1.1\r\nhost: x\r\n"
				   "Content-Type:  application/json \t\r\nEmpty:\r\n"
				   "content-LENGTH: 0012\r\n\r\nnot of the head";
	struct http_head h;

	CHECK(judge_pieces(&h, text, sizeof(text) - 1, sizeof(text) - 1) == 0);
	CHECK_STR(h.method, "POST");
	CHECK_STR(h.path, "/v1/a%20b");
	CHECK_STR(h.query, "c=d&e");
	CHECK_STR(http_head_get(&h, "CONTENT-type"), "application/json");
	CHECK_STR(http_head_get(&h, "empty"), "");
	CHECK(http_head_get(&h, "absent") == NULL);
	CHECK(h.count == 4 && h.minor == 1 && h.keep_alive && !h.chunked && !h.continue_first);
	CHECK(h.has_length && h.length == 12);
	http_head_fini(&h);
}

TEST(connection_is_kept_or_not)
{
	static const struct {
		const char *text;
		bool keep;
	} table[] = {
	    {"GET / HTTP/1.1\r\n" HOST "\r\n", true},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", false},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: Close\r\n\r\n", false},
	    {"GET / HTTP/1.1\r\n" HOST "Connection: a, close\r\n\r\n", false},
	    {"GET / HTTP/1.0\r\n\r\n", false},
	    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
	};
	struct http_head h;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		size_t len = strlen(table[i].text);

		CHECK(judge_pieces(&h, table[i].text, len, len) == 0);
		CHECK_MSG(h.keep_alive == table[i].keep, "case %zu", i);
		http_head_fini(&h);
	}
}

TEST(target_forms)
{
	static const struct {
		const char *target, *path, *query;
	} table[] = {
	    {"/", "/", NULL},
	    {"/a?", "/a", ""},
	    {"/a?b?c", "/a", "b?c"},
	    {"http://h/a?b", "/a", "b"},
	    {"HTTPS://h:1/a", "/a", NULL},
	    {"http://h", "/", NULL},
	    {"*", "*", NULL},
	    {"//a", "//a", NULL},
	};
	char text[256];
	struct http_head h;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int len = snprintf(
		    text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", table[i].target);

		CHECK(judge_pieces(&h, text, (size_t)len, (size_t)len) == 0);
		CHECK_STR(h.path, table[i].path);
		CHECK((h.query == NULL) == (table[i].query == NULL));
		if (h.query != NULL && table[i].query != NULL)
			CHECK_STR(h.query, table[i].query);
		http_head_fini(&h);
	}
	CHECK(judge("GET http://h?a HTTP/1.1\r\n" HOST "\r\n") == 400);
	CHECK(judge("GET ftp://h/a HTTP/1.1\r\n" HOST "\r\n") == 400);
	CHECK(judge("CONNECT h:443 HTTP/1.1\r\n" HOST "\r\n") == 400);
}

TEST(incomplete_heads_wait)
{
	static const char text[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
	struct http_head h;

	for (size_t len = 0; len + 1 < sizeof(text); len++)
		CHECK(judge_pieces(&h, text, len, len + 1) == (len == sizeof(text) - 1 ? 0 : 1));
}

TEST(refusals)
{
	static const struct {
		const char *fields;
		unsigned status;
	} table[] = {
	    {"A: b\r\n c: d\r\n", 400},
	    {"A: b\r\n\tc: d\r\n", 400},
	    {"A : b\r\n", 400},
	    {"A\r\n", 400},
	    {": b\r\n", 400},
	    {"A: b\nC: d\r\n", 400},
	    {"A: b\rC: d\r\n", 400},
	    {"A: \x01\r\n", 400},
	    {"A: \x7f\r\n", 400},
	    {"A: \xff\r\n", 0},
	    {"host: y\r\n", 400},
	    {"Content-Type: a\r\ncontent-type: a\r\n", 400},
	    {"Content-Length: 1\r\nContent-Length: 1\r\n", 400},
	    {"Content-Length: 1,1\r\n", 400},
	    {"Content-Length: 18446744073709551616\r\n", 400},
	    {"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400},
	    {"Transfer-Encoding: chunked\r\n", 0},
	    {"Transfer-Encoding: Chunked\r\n", 0},
	    {"Transfer-Encoding: chunked, chunked\r\n", 501},
	    {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
	    {"Transfer-Encoding: gzip\r\n", 501},
	    {"Transfer-Encoding: gzip, chunked\r\n", 501},
	    {"Expect: 100-Continue\r\n", 0},
	    {"Expect: 100-continue, x\r\n", 417},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		unsigned status;

		snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n" HOST "%s\r\n", table[i].fields);
		status = judge(text);
		CHECK_MSG(status == table[i].status, "%u, want %u: %s", status, table[i].status,
		    table[i].fields);
	}
	CHECK(judge("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
	CHECK(judge("POST / HTTP/1.1\r\n\r\n") == 400);
	CHECK(judge("POST / HTTP/2.0\r\n" HOST "\r\n") == 505);
	CHECK(judge("BREW / HTTP/1.1\r\n" HOST "\r\n") == 501);
	CHECK(judge("P(ST / HTTP/1.1\r\n" HOST "\r\n") == 400);
}

TEST(bounds)
{
	static char text[40000];
	struct http_head h;
	int len;

	len = snprintf(
	    text, sizeof(text), "GET /%0*d HTTP/1.1\r\n" HOST "\r\n", HTTP_TARGET_BYTES - 14, 0);
	CHECK(judge_pieces(&h, text, (size_t)len, 100) == 0);
	http_head_fini(&h);
	len = snprintf(
	    text, sizeof(text), "GET /%0*d HTTP/1.1\r\n" HOST "\r\n", HTTP_TARGET_BYTES - 13, 0);
	CHECK(judge_pieces(&h, text, (size_t)len, 100) == 414);
	len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "A: %0*d\r\n\r\n",
	    HTTP_HEADER_BYTES - 16 - 9 - 3 - 4, 0);
	CHECK(len == HTTP_HEADER_BYTES);
	CHECK(judge_pieces(&h, text, (size_t)len, 100) == 0);
	http_head_fini(&h);
	len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "A: %0*d\r\n\r\n",
	    HTTP_HEADER_BYTES - 16 - 9 - 3 - 3, 0);
	CHECK(judge_pieces(&h, text, (size_t)len, 100) == 431);
}

/* The decoded body, or NULL if the coding is broken or not at its end; *rest: bytes after it. */
static const char *
decode(const char *text, size_t piece, size_t *rest)
{
	static char body[256];
	struct http_chunk c = {0};
	size_t at = 0, len = strlen(text), body_len = 0, used;
	int rc = 0;

	while (rc == 0 && at < len) {
		const void *data;
		size_t n;

		rc = http_chunk_next(
		    &c, text + at, len - at < piece ? len - at : piece, &used, &data, &n);
		if (rc < 0 || body_len + n >= sizeof(body))
			return NULL;
		memcpy(body + body_len, data, n);
		body_len += n;
		at += used;
	}
	body[body_len] = '\0';
	*rest = len - at;
	return rc == 1 ? body : NULL;
}

TEST(chunks)
{
	static const struct {
		const char *text, *body; /* body NULL: refused or unfinished */
		size_t rest;
	} table[] = {
	    {"5\r\nhello\r\n0\r\n\r\nnext", "hello", 4},
	    {"0\r\n\r\n", "", 0},
	    {"1\r\na\r\n1\r\nb\r\n000\r\n\r\n", "ab", 0},
	    {"A;x=y\r\n0123456789\r\n0;z\r\nT: r\r\n\r\n", "0123456789", 0},
	    {"5\r\nhello\r\n0\r\n", NULL, 0},
	    {"5\r\nhell", NULL, 0},
	    {"5\nhello\r\n0\r\n\r\n", NULL, 0},
	    {"5\rXhello\r\n0\r\n\r\n", NULL, 0},
	    {"5\r\nhello\rX0\r\n\r\n", NULL, 0},
	    {"0\r\n\rX", NULL, 0},
	    {"0\r\nT: r\rX\r\n", NULL, 0},
	    {"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n1\r\ne\r\n1\r\nf\r\n1\r\ng\r\n1\r\nh\r\n"
	     "1\r\ni\r\n1\r\nj\r\n1\r\nk\r\n1\r\nl\r\n1\r\nm\r\n1\r\nn\r\n1\r\no\r\n1\r\np\r\n0\r\n"
	     "\r\n",
		"abcdefghijklmnop", 0},
	    {"5\r\nhelloX\r\n0\r\n\r\n", NULL, 0},
	    {"5\r\nhello\r\n0\r\n T: r\r\n\r\n", NULL, 0},
	    {"ffffffffffffffff\r\n", NULL, 0},
	    {"-1\r\n", NULL, 0},
	    {"5 \r\nhello\r\n0\r\n\r\n", NULL, 0},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (size_t piece = 1; piece < 30; piece += 7) {
			size_t rest = 0;
			const char *body = decode(table[i].text, piece, &rest);

			CHECK_MSG((body == NULL) == (table[i].body == NULL), "case %zu", i);
			if (body == NULL || table[i].body == NULL)
				continue;
			CHECK_STR(body, table[i].body);
			CHECK_MSG(rest == table[i].rest, "case %zu: %zu", i, rest);
		}
	}
}

TEST_MAIN(TEST_CASE(head_is_read), TEST_CASE(connection_is_kept_or_not), TEST_CASE(target_forms),
    TEST_CASE(incomplete_heads_wait), TEST_CASE(refusals), TEST_CASE(bounds), TEST_CASE(chunks))
