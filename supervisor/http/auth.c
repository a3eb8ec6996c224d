#include "supervisor/http/auth.h"

#include <sodium.h>
#include <string.h>

#include "supervisor/http/http.h"

/* Digests of equal length are compared, so that time tells nothing of the token, not even its
   length. */
static void
digest(const char *text, unsigned char out[crypto_generichash_BYTES])
{
	crypto_generichash(
	    out, crypto_generichash_BYTES, (const unsigned char *)text, strlen(text), NULL, 0);
}

bool
auth_allows(const struct http_request *r, const char *token)
{
	static const char scheme[] = "Bearer ";
	const char *value = http_header(r, "authorization");
	unsigned char got[crypto_generichash_BYTES], want[crypto_generichash_BYTES];

	if (value == NULL || http_header_count(r, "authorization") != 1 ||
	    strncmp(value, scheme, sizeof(scheme) - 1) != 0)
		return false;
	digest(value + sizeof(scheme) - 1, got);
	digest(token, want);
	return sodium_memcmp(got, want, sizeof(got)) == 0;
}
