/* URLs of artifacts: normalized as the reference's client would request them, or refused. */
#include "tests/unit/test.h"

#include "supervisor/transfer/url.h"

TEST(normalized)
{
	/* Second column: what the reference (WHATWG rules) requests. */
	static const char *const cases[][2] = {
	    {"https://objects.invalid", "https://objects.invalid/"},
	    {"https://objects.invalid?x=1", "https://objects.invalid/?x=1"},
	    {"HTTPS://Objects.INVALID:443/S", "https://objects.invalid/S"},
	    {"https://objects.invalid:/s", "https://objects.invalid/s"},
	    {"https://objects.invalid:08443/s", "https://objects.invalid:8443/s"},
	    {"https://objects.invalid:80/s", "https://objects.invalid:80/s"},
	    {"https://objects.invalid/s#part", "https://objects.invalid/s"},
	    {"https://objects.invalid#part?x", "https://objects.invalid/"},
	    {"https://h/a/../b/./c/", "https://h/b/c/"},
	    {"https://h/a/b/..", "https://h/a/"},
	    {"https://h/../../x", "https://h/x"},
	    {"https://h/a/%2E%2e/b", "https://h/b"},
	    {"https://h//a//b", "https://h//a//b"},
	    {"https://h/?a/../b", "https://h/?a/../b"},
	    {"https://h/a%20b%2Fc?x=%2B&a=b", "https://h/a%20b%2Fc?x=%2B&a=b"},
	    {"https://h/a b?x=a b", "https://h/a%20b?x=a%20b"},
	    {"https://h/\xe6\xa8\xa1", "https://h/%E6%A8%A1"},
	    {"https://h/a%zz", "https://h/a%zz"},
	    {"https://my_bucket.invalid./s", "https://my_bucket.invalid./s"},
	    {"https://127.0.0.1:9/o", "https://127.0.0.1:9/o"},
	    {"https://[::1]:8443/s", "https://[::1]:8443/s"},
	    {"https://xn--bcher-kva.invalid/s", "https://xn--bcher-kva.invalid/s"},
	};
	static struct url url;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum url_fault fault = url_parse(&url, cases[i][0], strlen(cases[i][0]));

		CHECK_MSG(fault == URL_OK, "%s: %d", cases[i][0], (int)fault);
		if (fault == URL_OK)
			CHECK_STR(url.text, cases[i][1]);
	}
}

TEST(refused)
{
	static const struct {
		const char *text;
		enum url_fault fault;
	} cases[] = {
	    {"", URL_PARSING},
	    {" ", URL_PARSING},
	    {"objects", URL_PARSING},
	    {"//objects.invalid/s", URL_PARSING},
	    {"https://", URL_PARSING},
	    {"https:///", URL_PARSING},
	    {"https://:8443/s", URL_PARSING},
	    {"https://objects.invalid:65536/s", URL_PARSING},
	    {"https://objects.invalid:x/s", URL_PARSING},
	    {"https://[::zz]/s", URL_PARSING},
	    {"https://256.0.0.1/s", URL_PARSING},
	    {"https://<host>/s", URL_PARSING},
	    {"https://objects .invalid/s", URL_PARSING},
	    {"s3://bucket/key", URL_SCHEME},
	    {"file:///etc/passwd", URL_SCHEME},
	    {"data:text/plain,x", URL_SCHEME},
	    {"wss://objects.invalid/s", URL_SCHEME},
	    {"s3://bucket:99999/key", URL_PARSING},
	    {"http://objects.invalid/s", URL_NOT_HTTPS},
	    /* What a browser would repair into another host than the eye reads. */
	    {"https://user:password@objects.invalid/s", URL_PARSING},
	    {"https:/objects.invalid/s", URL_PARSING},
	    {"https:objects.invalid/s", URL_PARSING},
	    {"https://objects.invalid\\@other.invalid/s", URL_PARSING},
	    {"https://objects.invalid/a\\b", URL_PARSING},
	    {"https://127.1/s", URL_PARSING},
	    {"https://0x7f000001/s", URL_PARSING},
	    {"https://2130706433/s", URL_PARSING},
	    {"https://%6Fbjects.invalid/s", URL_PARSING},
	    {"https://b\xc3\xbc"
	     "cher.invalid/s",
		URL_PARSING},
	    {"https://objects.invalid/a\nb", URL_PARSING},
	    {" https://objects.invalid/s", URL_PARSING},
	};
	static struct url url;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum url_fault fault = url_parse(&url, cases[i].text, strlen(cases[i].text));

		CHECK_MSG(fault == cases[i].fault, "%s: %d", cases[i].text, (int)fault);
	}
}

TEST(lengths)
{
	static char text[URL_GIVEN_MAX + 2];
	static struct url url;

	memset(text, 'a', sizeof(text));
	memcpy(text, "https://h/", 10);
	CHECK(url_parse(&url, text, URL_GIVEN_MAX) == URL_OK);
	CHECK(strlen(url.text) == URL_GIVEN_MAX);
	CHECK(url_parse(&url, text, URL_GIVEN_MAX + 1) == URL_TOO_LONG);
	memset(text + 10, ' ', sizeof(text) - 10); /* three bytes each when escaped */
	CHECK(url_parse(&url, text, URL_GIVEN_MAX) == URL_TOO_LONG);
}

TEST(plain)
{
	static const char own[] = "http://127.0.0.1:8321/v1/objects/0123?signature=x";
	static struct url url;

	CHECK(url_parse(&url, own, strlen(own)) == URL_OK);
	CHECK(url.plain);
	CHECK_STR(url.text, own);
	CHECK_STR(url.host, "127.0.0.1");
	CHECK(url.port == 8321 && url.is_ipv4 && !url.is_ipv6);
	CHECK(url_parse(&url, "https://h/v1/objects/0123", 25) == URL_OK && !url.plain);
	/* What it is when its dots are followed counts. */
	CHECK(url_parse(&url, "http://h/v1/objects/..?", 23) == URL_NOT_HTTPS);
	CHECK(url_parse(&url, "http://h/v1/objects/#x", 22) == URL_NOT_HTTPS);
	CHECK(url_parse(&url, "http://h/v1/objects/../objects/1", 32) == URL_OK);
}

TEST_MAIN(TEST_CASE(normalized), TEST_CASE(refused), TEST_CASE(lengths), TEST_CASE(plain))
