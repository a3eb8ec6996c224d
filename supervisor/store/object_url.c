#include "supervisor/store/object_url.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char path[] = "/v1/objects/";

enum { SIGNATURE_BYTES = crypto_generichash_BYTES, ID_DIGITS = 32 };

static void
make_signature(char hex[2 * SIGNATURE_BYTES + 1], const unsigned char *key,
    const struct object_ref *ref, int64_t expires)
{
	unsigned char hash[SIGNATURE_BYTES];
	char text[256];
	int len = snprintf(text, sizeof(text), "stepd object 1\n%s\n%s\n%" PRId64 "\n%" PRIu64,
	    ref->verb == OBJECT_PUT ? "PUT" : "GET", ref->id, expires, ref->limit);

	crypto_generichash(
	    hash, sizeof(hash), (unsigned char *)text, (size_t)len, key, OBJECT_KEY_BYTES);
	sodium_bin2hex(hex, 2 * SIGNATURE_BYTES + 1, hash, sizeof(hash));
}

int
object_url_sign(char out[OBJECT_URL_MAX], const unsigned char key[OBJECT_KEY_BYTES],
    const char *base, const struct object_ref *ref, int64_t expires)
{
	char signature[2 * SIGNATURE_BYTES + 1];
	int len;

	make_signature(signature, key, ref, expires);
	len = snprintf(out, OBJECT_URL_MAX,
	    "%s%s%s?expires=%" PRId64 "&limit=%" PRIu64 "&signature=%s", base, path, ref->id,
	    expires, ref->limit, signature);
	return len < OBJECT_URL_MAX ? 0 : -ENAMETOOLONG;
}

/* Digits only, in their one form: what is signed again must be the very same text. */
static bool
read_number(const char *text, uint64_t *out)
{
	char again[32];

	if (text == NULL || strlen(text) > 19)
		return false;
	*out = strtoull(text, NULL, 10);
	snprintf(again, sizeof(again), "%" PRIu64, *out);
	return strcmp(text, again) == 0;
}

int
object_url_verify(struct object_ref *ref, const unsigned char key[OBJECT_KEY_BYTES],
    enum object_verb verb, const char *id, const char *expires, const char *limit,
    const char *signature, int64_t now)
{
	char want[2 * SIGNATURE_BYTES + 1];
	uint64_t until;

	memset(ref, 0, sizeof(*ref));
	ref->verb = verb;
	if (id == NULL || strlen(id) != ID_DIGITS || id[strspn(id, "0123456789abcdef")] != '\0' ||
	    !read_number(expires, &until) || !read_number(limit, &ref->limit) ||
	    signature == NULL || strlen(signature) != sizeof(want) - 1)
		return -EACCES;
	memcpy(ref->id, id, sizeof(ref->id));
	make_signature(want, key, ref, (int64_t)until);
	if (sodium_memcmp(want, signature, sizeof(want) - 1) != 0)
		return -EACCES;
	return (int64_t)until < now ? -ESTALE : 0;
}

int
object_url_read(struct object_ref *ref, const unsigned char key[OBJECT_KEY_BYTES],
    enum object_verb verb, const char *url, int64_t now, size_t *base_len)
{
	const char *host = strstr(url, "://"), *at, *expires = NULL, *limit = NULL;
	const char *signature = NULL;
	char copy[OBJECT_URL_MAX], *rest, *id, *arg;

	at = host != NULL ? strchr(host + 3, '/') : NULL;
	if (at == NULL || strncmp(at, path, sizeof(path) - 1) != 0 || strlen(url) >= sizeof(copy))
		return -ENOENT;
	*base_len = (size_t)(at - url);
	strcpy(copy, at + sizeof(path) - 1);
	rest = copy;
	id = strsep(&rest, "?");
	if (strlen(id) != ID_DIGITS)
		return -ENOENT;
	while ((arg = strsep(&rest, "&")) != NULL) {
		if (strncmp(arg, "expires=", 8) == 0)
			expires = arg + 8;
		else if (strncmp(arg, "limit=", 6) == 0)
			limit = arg + 6;
		else if (strncmp(arg, "signature=", 10) == 0)
			signature = arg + 10;
	}
	return object_url_verify(ref, key, verb, id, expires, limit, signature, now);
}
