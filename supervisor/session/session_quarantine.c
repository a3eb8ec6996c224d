/* Requests that end their worker: tried a second time, then refused, now and when they are sent
   again. One that was under way when somebody killed the worker from outside is not to blame, nor
   one that no worker could be asked for want of memory; it is tried a few times more. */
#include <sodium.h>
#include <string.h>

#include "ipc/blob.h"
#include "ipc/log.h"
#include "supervisor/session/session_action.h"

enum { BLAMED_MAX = 2, KILLED_MAX = 5 };

static const char refused[] =
    "the request ended the worker of the session twice, and is not tried again";

/* What it asks for, not who asks. 0, or -1: not known. */
static int
digest_of(const struct session_request *request, uint8_t out[QUARANTINE_DIGEST])
{
	crypto_generichash_state state;
	struct blob_view body = {0};

	crypto_generichash_init(&state, NULL, 0, QUARANTINE_DIGEST);
	crypto_generichash_update(&state, (const uint8_t *)&request->kind, sizeof(request->kind));
	crypto_generichash_update(
	    &state, (const uint8_t *)&request->learning_rate, sizeof(request->learning_rate));
	crypto_generichash_update(&state, &request->artifact, sizeof(request->artifact));
	/* An artifact is told by what it has to be: it is given to a worker only if it is that. */
	crypto_generichash_update(
	    &state, (const uint8_t *)request->sha256, strlen(request->sha256));
	if (request->fd >= 0 && request->kind != REQUEST_VERIFY) {
		if (blob_map(&body, request->fd) != 0)
			return -1;
		crypto_generichash_update(&state, body.data, body.len);
		blob_unmap(&body);
	}
	crypto_generichash_final(&state, out, QUARANTINE_DIGEST);
	return 0;
}

bool
session_refuse_quarantined(struct session *s, struct session_request *request)
{
	uint8_t digest[QUARANTINE_DIGEST];

	if (s->quarantined == 0 || digest_of(request, digest) != 0)
		return false;
	for (size_t i = 0; i < s->quarantined && i < QUARANTINE_MAX; i++) {
		if (memcmp(s->quarantine[i], digest, sizeof(digest)) == 0) {
			session_refuse(s, request, 422, refused);
			return true;
		}
	}
	return false;
}

void
session_blame(struct session *s, enum child_class class)
{
	enum child_remedy remedy = child_class_remedy(class);
	struct session_request *request = s->current;
	uint8_t digest[QUARANTINE_DIGEST];

	if (s->slot->failed)
		return; /* the device's fault */
	/* NONE: stepd ended it, because it could not be asked. */
	if (remedy == REMEDY_RETRY || remedy == REMEDY_NONE) {
		if (++request->killed >= KILLED_MAX)
			session_reply_detail(s, 503, session_lost_sentence(s));
		return;
	}
	if (++request->blamed < BLAMED_MAX)
		return;
	log_error("session %s: a request ended its worker twice (%s); it is refused from now on",
	    s->record.id, child_class_name(class));
	if (digest_of(request, digest) == 0)
		memcpy(s->quarantine[s->quarantined++ % QUARANTINE_MAX], digest, sizeof(digest));
	session_reply_detail(s, 422, refused);
}
