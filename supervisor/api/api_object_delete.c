/* DELETE /v1/objects/{id}. With an Idempotency-Key that is in the store before the object goes: the
   same request again finds it gone, and is answered as the first was. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/api/api_call.h"
#include "supervisor/api/api_key.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/kept_find.h"
#include "supervisor/store/object_store.h"
#include "supervisor/store/store.h"

/* Beside the numbers of enum request_kind. */
enum { KIND_REMOVE = 254 };

/* One that waits for the store. */
struct removal {
	struct stepd *s;
	struct http_request *http;
};

static void
reply(struct http_request *r, int error)
{
	if (error == 0)
		http_reply_empty(r, 204);
	else if (error == -ENOENT)
		http_reply_detail(r, 404, "object not found");
	else
		http_reply_detail(r, 500, "the object could not be removed");
}

/* Removes what may be gone already. */
static void
finish(struct stepd *s, struct http_request *r)
{
	int error = objects_remove(s, http_param(r));

	reply(r, error == -ENOENT ? 0 : error);
}

static void
on_kept(void *ctx, int error)
{
	struct removal *removal = ctx;

	if (error != 0)
		http_reply_detail(
		    removal->http, 507, "the trainer has no disk space to keep the key");
	else
		finish(removal->s, removal->http);
	free(removal);
}

/* Consumes the removal. */
static void
keep(struct removal *removal, const char *name, const uint8_t digest[KEPT_DIGEST])
{
	struct kept_answer answer = {.kind = KIND_REMOVE, .at = kept_clock_seconds(), .json = ""};
	uint8_t key[KEPT_KEY_MAX], packed[KEPT_ANSWER_MAX];
	size_t key_len = kept_answer_key(key, KEPT_REMOVING, name);
	struct store_write write = {STORE_ANSWERS, key, key_len, packed, 0};
	long len;

	memcpy(answer.digest, digest, KEPT_DIGEST);
	len = kept_answer_put(&answer, packed);
	write.len = len < 0 ? 0 : (size_t)len;
	if (len < 0 || store_commit(removal->s->store, &write, 1, on_kept, removal) != 0)
		on_kept(removal, -ENOMEM);
}

static void
remove_once(struct stepd *s, struct http_request *r, const char *key)
{
	const char *id = http_param(r);
	struct kept_answer answer;
	struct removal *removal;
	uint8_t digest[KEPT_DIGEST];
	void *data;
	int error = kept_find(s, KEPT_REMOVING, key, &answer, &data);

	free(data);
	crypto_generichash(digest, sizeof(digest), (const uint8_t *)id, strlen(id), NULL, 0);
	if (error == 0 && memcmp(answer.digest, digest, sizeof(digest)) != 0) {
		http_reply_detail(r, 422, api_key_taken);
	} else if (error == 0) {
		finish(s, r);
	} else if (error != -ENOENT) {
		http_reply_detail(r, 503, "the trainer cannot read what it answered to this key");
	} else if (!objects_have(s->objects, id)) {
		reply(r, -ENOENT);
	} else if ((removal = malloc(sizeof(*removal))) == NULL) {
		http_reply_detail(r, 503, api_no_memory);
	} else {
		*removal = (struct removal){s, r};
		keep(removal, key, digest);
	}
}

void
api_object_delete(struct stepd *s, struct http_request *r)
{
	char key[API_OWN_KEY_SIZE];

	if (api_own_key(s, r, key) != 0)
		return;
	if (key[0] != '\0')
		remove_once(s, r, key);
	else
		reply(r, objects_remove(s, http_param(r)));
}
