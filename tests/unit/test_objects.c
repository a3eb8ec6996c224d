/* Signed URLs: what was signed verifies, and nothing else does. */
#include <errno.h>
#include <sodium.h>

#include "supervisor/store/object_url.h"
#include "tests/unit/test.h"

static const unsigned char key[OBJECT_KEY_BYTES] = "a key of the tests, 32 bytes of";
static const struct object_ref put = {"00112233445566778899aabbccddeeff", OBJECT_PUT, 1000};

static int
read_as(const char *url, enum object_verb verb, int64_t now)
{
	struct object_ref ref;
	size_t base_len;

	return object_url_read(&ref, key, verb, url, now, &base_len);
}

TEST(round_trip)
{
	char url[OBJECT_URL_MAX];
	struct object_ref ref;
	size_t base_len;

	CHECK(object_url_sign(url, key, "https://127.0.0.1:8321", &put, 5000) == 0);
	CHECK(strncmp(url,
		  "https://127.0.0.1:8321/v1/objects/00112233445566778899aabbccddeeff?expires=5000"
		  "&limit=1000&signature=",
		  strlen("https://127.0.0.1:8321/v1/objects/"
			 "00112233445566778899aabbccddeeff?expires=5000"
			 "&limit=1000&signature=")) == 0);
	CHECK(object_url_read(&ref, key, OBJECT_PUT, url, 5000, &base_len) == 0);
	CHECK_STR(ref.id, put.id);
	CHECK(ref.verb == OBJECT_PUT && ref.limit == 1000 && base_len == 22);
	CHECK(read_as(url, OBJECT_PUT, 5001) == -ESTALE);
	CHECK(read_as(url, OBJECT_GET, 0) == -EACCES);
}

/* The same digest by Python: hashlib.blake2b(text, digest_size=32, key=key). */
TEST(signature_is_keyed_blake2b)
{
	char url[OBJECT_URL_MAX];

	CHECK(object_url_sign(url, key, "", &put, 5000) == 0);
	CHECK_STR(strstr(url, "signature=") + 10,
	    "8e1879a1f226800582162ba94c9ea84cfb3a54d4da8459c177039a14b2e536ed");
}

TEST(every_changed_byte_is_refused)
{
	char url[OBJECT_URL_MAX], changed[OBJECT_URL_MAX];
	size_t start;

	CHECK(object_url_sign(url, key, "https://h", &put, 5000) == 0);
	start = strlen("https://h/v1/objects/");
	for (size_t i = start; i < strlen(url); i++) {
		static const char others[] = "01f&=?x";

		for (const char *c = others; *c != '\0'; c++) {
			strcpy(changed, url);
			if (changed[i] == *c)
				continue;
			changed[i] = *c;
			CHECK_MSG(read_as(changed, OBJECT_PUT, 0) != 0, "%s", changed);
		}
		strcpy(changed, url);
		changed[i] = '\0';
		CHECK_MSG(read_as(changed, OBJECT_PUT, 0) != 0, "cut at %zu", i);
	}
}

/* One number, one text: nothing may stand before its digits. */
TEST(numbers_have_one_form)
{
	static const char *const fields[] = {"expires=", "limit="}, *const more[] = {
									"0", "+", "%20"};
	char url[OBJECT_URL_MAX], changed[OBJECT_URL_MAX];

	CHECK(object_url_sign(url, key, "https://h", &put, 5000) == 0);
	for (size_t i = 0; i < 2; i++) {
		size_t at = (size_t)(strstr(url, fields[i]) - url) + strlen(fields[i]);

		for (size_t k = 0; k < 3; k++) {
			snprintf(
			    changed, sizeof(changed), "%.*s%s%s", (int)at, url, more[k], url + at);
			CHECK_MSG(read_as(changed, OBJECT_PUT, 0) == -EACCES, "%s", changed);
		}
	}
}

TEST(other_keys_and_forms)
{
	unsigned char other[OBJECT_KEY_BYTES];
	char url[OBJECT_URL_MAX], base[OBJECT_URL_MAX];
	struct object_ref ref;
	size_t len;

	CHECK(object_url_sign(url, key, "https://h", &put, 5000) == 0);
	memcpy(other, key, sizeof(other));
	other[31] ^= 1;
	CHECK(object_url_read(&ref, other, OBJECT_PUT, url, 0, &len) == -EACCES);
	CHECK(read_as("https://h/v1/objects/short?expires=1", OBJECT_PUT, 0) == -ENOENT);
	CHECK(read_as("https://h/bucket/file?X-Signature=1", OBJECT_PUT, 0) == -ENOENT);
	CHECK(read_as("https://h", OBJECT_PUT, 0) == -ENOENT);
	CHECK(read_as("", OBJECT_PUT, 0) == -ENOENT);
	CHECK(read_as("https://h/x/v1/objects/00112233445566778899aabbccddeeff?expires=1",
		  OBJECT_PUT, 0) == -ENOENT);
	memset(base, 'a', sizeof(base) - 1);
	base[sizeof(base) - 1] = '\0';
	CHECK(object_url_sign(url, key, base, &put, 5000) == -ENAMETOOLONG);
	CHECK(object_url_verify(&ref, key, OBJECT_PUT, put.id, NULL, NULL, NULL, 0) == -EACCES);
	CHECK(object_url_verify(&ref, key, OBJECT_PUT, NULL, "1", "1", "", 0) == -EACCES);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(round_trip),
	    TEST_CASE(signature_is_keyed_blake2b), TEST_CASE(every_changed_byte_is_refused),
	    TEST_CASE(numbers_have_one_form), TEST_CASE(other_keys_and_forms), {NULL, NULL}};

	return sodium_init() < 0 || test_main(cases, argc, argv);
}
