#include "supervisor/api/api_key.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/api/api_call.h"
#include "supervisor/api/operations.h"
#include "supervisor/http/auth.h"
#include "supervisor/session/session.h"

const char api_key_taken[] = "the Idempotency-Key was used for another request";

int
api_key(struct http_request *r, const char **key)
{
	const struct operation *o = operation_of(r);
	size_t len;

	*key = o != NULL ? o->key : http_header(r, "idempotency-key");
	if (o != NULL || *key == NULL)
		return 0;
	len = strlen(*key);
	if (http_header_count(r, "idempotency-key") == 1 && len > 0 && len <= IDEMPOTENCY_KEY_MAX)
		return 0;
	http_reply_detail(r, 422, "Idempotency-Key must be one of 1 to 255 characters");
	return -1;
}

int
api_own_key(struct stepd *s, struct http_request *r, char key[API_OWN_KEY_SIZE])
{
	uint8_t digest[KEPT_DIGEST];
	crypto_generichash_state state;
	const char *given, *name;

	if (api_key(r, &given) != 0)
		return -1;
	snprintf(key, API_OWN_KEY_SIZE, "%s", given == NULL ? "" : given);
	/* That of an operation is its client's own already. */
	if (given == NULL || operation_of(r) != NULL)
		return 0;
	name = auth_name(r, s->tokens);
	crypto_generichash_init(&state, NULL, 0, sizeof(digest));
	if (name != NULL)
		crypto_generichash_update(&state, (const uint8_t *)name, strlen(name) + 1);
	crypto_generichash_update(&state, (const uint8_t *)given, strlen(given));
	crypto_generichash_final(&state, digest, sizeof(digest));
	sodium_bin2hex(key, API_OWN_KEY_SIZE, digest, sizeof(digest));
	return 0;
}

int
api_digest(struct http_request *r, uint8_t digest[KEPT_DIGEST])
{
	const char *query = http_query_text(r);
	const struct blob_view *body = http_body(r);

	if (body == NULL)
		return -ENOMEM;
	if (strcmp(http_method(r), "POST") == 0)
		crypto_generichash(digest, KEPT_DIGEST, body->data, body->len, NULL, 0);
	else
		crypto_generichash(digest, KEPT_DIGEST, (const uint8_t *)query,
		    query == NULL ? 0 : strlen(query), NULL, 0);
	return 0;
}

int
api_key_take(struct http_request *r, struct session_request *request)
{
	const char *key;

	if (api_key(r, &key) != 0)
		return -1;
	if (key == NULL)
		return 0;
	request->key = strdup(key);
	if (request->key != NULL && api_digest(r, request->digest) == 0)
		return 0;
	http_reply_detail(r, 503, api_no_memory);
	return -1;
}
