/* An operation from its request to its answer. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ipc/blob.h"
#include "ipc/log.h"
#include "ipc/refusal.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/api_key.h"
#include "supervisor/api/operations.h"
#include "supervisor/session/session.h"

/* RFC 7240: a list of tokens, each with a value and parameters perhaps. */
static bool
prefers(const char *at)
{
	static const char token[] = "respond-async";

	while (at != NULL) {
		at += strspn(at, " \t,");
		if (strncasecmp(at, token, sizeof(token) - 1) == 0 &&
		    strchr(" \t,;", at[sizeof(token) - 1]) != NULL)
			return true;
		at = strchr(at, ',');
	}
	return false;
}

bool
operation_wanted(const struct http_request *r)
{
	const char *value;

	for (size_t i = 0; (value = http_header_at(r, "prefer", i)) != NULL; i++) {
		if (prefers(value))
			return true;
	}
	return false;
}

struct operation *
operation_of(const struct http_request *r)
{
	return http_sink_context(r);
}

void
operation_describe(const struct session_request *request)
{
	struct operation *o = operation_of(request->http);
	struct blob_view ids;

	if (o == NULL)
		return;
	o->kind = (uint8_t)request->kind;
	o->force = request->force;
	o->learning_rate = request->learning_rate;
	if (request->kind != REQUEST_TRAIN || blob_map(&ids, request->fd) != 0)
		return;
	if (ids.len <= OPERATION_IDS_MAX)
		o->ids = malloc(ids.len);
	if (o->ids != NULL) {
		memcpy(o->ids, ids.data, ids.len);
		o->ids_len = ids.len;
	}
	blob_unmap(&ids);
}

/* Whatever the store says: the answer is what happened. */
static void
finish(struct operation *o)
{
	o->done = true;
	operation_wake(o);
	if (o->refused)
		operation_forget(o);
}

static void
on_answer_kept(void *ctx, int error)
{
	struct operation *o = ctx;

	if (error != 0)
		log_error(
		    "operation %s: its answer is not in the store: %s", o->id, strerror(-error));
	finish(o);
}

/* A step that was right when it was asked for is not wrong because a restart lost its datums. */
static bool
lost_its_datums(const struct operation *o, const struct http_answer *answer)
{
	static const char unknown[] = REFUSAL_UNKNOWN_DATUM;

	return o->resumed && answer->status == 422 && answer->body != NULL &&
	       memmem(answer->body, answer->len, unknown, sizeof(unknown) - 1) != NULL;
}

static void
on_answer(void *ctx, const struct http_answer *answer)
{
	static const char render_again[] =
	    "{\"detail\":\"stepd was started again before this was done, and the datums were in "
	    "its memory; nothing was lost: render them again, then send this again\"}";
	struct http_answer lost = *answer;
	struct operation *o = ctx;
	int error;

	o->http = NULL;
	if (lost_its_datums(o, answer)) {
		lost.status = 503;
		lost.body = render_again;
		lost.len = sizeof(render_again) - 1;
		answer = &lost;
	}
	/* Stopping did not let it happen: it is for the next start to say what becomes of it. */
	if (!o->handling && o->stepd->stopping && answer->status == 503)
		return;
	operation_take_answer(o, answer);
	if (o->handling)
		return;
	error = operation_keep(o, on_answer_kept);
	if (error != 0)
		on_answer_kept(o, error);
}

struct http_request *
operation_request(struct operation *o)
{
	o->http = http_detach(NULL, on_answer, o);
	return o->http;
}

/* From here on it is found, also after a restart. Where the store cannot hold it, its client waits
   as if it had not preferred otherwise. */
static void
on_accepted(void *ctx, int error)
{
	struct operation *o = ctx;

	o->accepted = error == 0;
	o->refused = error != 0;
	if (o->accepted)
		operation_tell_accepted(o);
}

/* The same key again: the same operation, or a fault of the client's. true after a reply. */
static bool
answer_again(struct stepd *s, struct http_request *r, const char *call, const char *key,
    const uint8_t digest[KEPT_DIGEST])
{
	struct operation *o = operations_find_key(s, http_param(r), key);

	if (o == NULL)
		return false;
	if (strcmp(o->call, call) != 0 || memcmp(o->digest, digest, KEPT_DIGEST) != 0)
		http_reply_detail(r, 422, api_key_taken);
	else if (!o->accepted)
		operation_wait(o, r, -1);
	else {
		http_add_header(r, "Preference-Applied", "respond-async");
		operation_reply_accepted(o, r);
	}
	return true;
}

/* The handler answers at once what it refuses, or has answered before: then there is no operation.
 */
static void
run(struct operation *o, struct http_request *r,
    void (*handle)(struct stepd *, struct http_request *))
{
	o->http = http_detach(r, on_answer, o);
	if (o->http == NULL) {
		operation_free(o);
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	o->handling = true;
	handle(o->stepd, o->http);
	o->handling = false;
	if (o->answered) {
		struct http_answer answer = {.status = o->status,
		    .headers = o->headers == NULL ? "" : o->headers,
		    .type = "application/json",
		    .body = o->body,
		    .fd = o->fd,
		    .len = o->len};

		if (o->body == NULL && o->fd < 0)
			http_reply_detail(r, 503, api_no_memory);
		else
			http_reply_answer(r, &answer);
		operation_free(o);
		return;
	}
	operation_wait(o, r, -1);
	if (operation_keep(o, on_accepted) != 0)
		on_accepted(o, -ENOMEM);
	free(o->ids);
	o->ids = NULL;
	o->ids_len = 0;
}

/* The session's key, or the client's own; NULL without one. 0, or -1 after a reply. */
static int
find_key(struct stepd *s, struct http_request *r, char own[API_OWN_KEY_SIZE], const char **key)
{
	if (http_param(r)[0] != '\0')
		return api_key(r, key);
	if (api_own_key(s, r, own) != 0)
		return -1;
	*key = own[0] == '\0' ? NULL : own;
	return 0;
}

void
operation_run(struct stepd *s, struct http_request *r, const char *call, bool text,
    void (*handle)(struct stepd *s, struct http_request *r))
{
	char own[API_OWN_KEY_SIZE];
	uint8_t digest[KEPT_DIGEST];
	struct operation *o;
	const char *key;

	if (find_key(s, r, own, &key) != 0)
		return;
	if (api_digest(r, digest) != 0) {
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	if (key != NULL && answer_again(s, r, call, key, digest))
		return;
	o = operation_new(s, NULL, key);
	if (o == NULL) {
		http_add_header(r, "Retry-After", "10");
		http_reply_detail(r, 503, "too many operations are under way");
		return;
	}
	o->text = text;
	memcpy(o->digest, digest, sizeof(digest));
	snprintf(o->call, sizeof(o->call), "%s", call);
	snprintf(o->session_id, sizeof(o->session_id), "%s", http_param(r));
	run(o, r, handle);
}
