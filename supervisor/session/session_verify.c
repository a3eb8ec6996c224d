/* Verifying: an artifact is downloaded again; its size and digest are compared here, its tensors
   are judged by the worker, which alone reads such files. Neither the worker nor the run changes;
   that the newest artifact was found right is noted in the record. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/json_write.h"
#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/session_action.h"
#include "supervisor/stepd.h"

static const char *
kind_name(const struct session_request *request)
{
	return request->artifact == ARTIFACT_STATE ? "state" : "sampling";
}

static const struct saved_artifact *
saved_of(const struct session *s, const struct session_request *request)
{
	return &s->record.saved[request->artifact - 1];
}

void
verify_resolve(const struct session *s, struct session_request *request)
{
	const struct saved_artifact *saved = saved_of(s, request);

	if (request->sha256[0] == '\0')
		memcpy(request->sha256, saved->sha256, sizeof(request->sha256));
	if (request->size == 0 && strcmp(request->sha256, saved->sha256) == 0)
		request->size = saved->size;
}

static void
end_verify(struct session *s, unsigned status, const char *sentence)
{
	session_reply_detail(s, status, sentence);
	session_settle(s);
}

static void
verify_ask(struct session *s)
{
	s->state = SESSION_VERIFYING;
	session_ask_artifact(
	    s, MSG_VERIFY, s->current->artifact, s->current->fd, s->stepd->config->load_timeout);
}

/* More than it has to be is not downloaded. */
static uint64_t
limit_of(const struct session *s)
{
	uint64_t size = s->current->size, limit = s->stepd->config->artifact_limit;

	return size > 0 && size < limit ? size : limit;
}

void
verify_begin(struct session *s)
{
	struct session_request *request = s->current;
	char sentence[160];

	if (request->fd >= 0) { /* it is here already: its worker died at it */
		verify_ask(s);
		return;
	}
	if (request->sha256[0] == '\0') {
		snprintf(sentence, sizeof(sentence),
		    "the session has saved no %s artifact: sha256 has to say what is expected",
		    kind_name(request));
		end_verify(s, 422, sentence);
		return;
	}
	s->state = SESSION_FETCHING;
	s->transfer = transfer_begin(
	    s->stepd->transfer, TRANSFER_GET, request->url, -1, limit_of(s), session_moved, s);
	if (s->transfer == NULL)
		end_verify(s, 503, "stepd has no memory left for a download");
}

/* 0, or -1 with a sentence. */
static int
compare(const struct session_request *want, const struct transfer_result *got, char sentence[256])
{
	if (want->size > 0 && got->size < want->size) {
		snprintf(sentence, 256, "the artifact is truncated: it has %llu of %llu bytes",
		    (unsigned long long)got->size, (unsigned long long)want->size);
		return -1;
	}
	if (strcmp(got->sha256, want->sha256) != 0) {
		snprintf(sentence, 256, "the artifact's sha256 is %s, not %s", got->sha256,
		    want->sha256);
		return -1;
	}
	return 0;
}

void
fetching_moved(struct session *s, struct session_input *in)
{
	char sentence[256];

	if (compare(s->current, in->moved, sentence) != 0) {
		end_verify(s, 422, sentence);
		return;
	}
	s->current->fd = in->moved->fd;
	s->current->size = in->moved->size;
	in->moved->fd = -1;
	if (s->child == NULL)
		session_recover(s);
	else
		verify_ask(s);
}

void
fetching_not_moved(struct session *s, struct session_input *in)
{
	char sentence[128];

	switch (in->moved->error) {
	case -EFBIG:
		snprintf(sentence, sizeof(sentence),
		    "the artifact is too large: it has more than %llu bytes",
		    (unsigned long long)limit_of(s));
		end_verify(s, 422, sentence);
		break;
	case -ENOSPC:
	case -EDQUOT:
		end_verify(s, 507, "the trainer has no disk space for the download");
		break;
	default:
		end_verify(s, 502, "the trainer artifact download failed");
	}
}

/* The download goes on without the worker; there is another one when it is asked. */
void
fetching_died(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}

/* Nothing is lost by it, so nobody waits for a download. */
void
fetching_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
	transfer_cancel(s->transfer);
	s->transfer = NULL;
	end_verify(s, 503, "the trainer is stopping");
}

static int
write_verified(char json[KEPT_JSON_MAX], const struct session_request *request,
    const struct message_verified *v)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_bool(&w, "verified", true);
	json_put_string(&w, "kind", kind_name(request));
	json_put_string(&w, "sha256", request->sha256);
	json_put_uint(&w, "size_bytes", request->size);
	if (request->artifact == ARTIFACT_STATE)
		json_put_uint(&w, "step", v->step);
	json_put_uint(&w, "tensor_count", v->tensors);
	json_put_uint(&w, "element_count", v->elements);
	json_put_bool(&w, "finite", true);
	json_write_object_end(&w);
	return session_take_json(json, &w);
}

/* Is this news for the record: the session's own, and newer than what was verified before? */
static bool
is_news(const struct session *s, const struct session_request *request)
{
	const struct session_record *r = &s->record;
	const struct saved_artifact *saved = saved_of(s, request);

	return strcmp(saved->sha256, request->sha256) == 0 &&
	       (r->verified_kind == 0 || saved->step > r->verified_step ||
		   (saved->step == r->verified_step &&
		       strcmp(r->verified_sha256, request->sha256) != 0));
}

void
verifying_answer(struct session *s, struct session_input *in)
{
	struct session_request *request = s->current;
	struct session_record *r = &s->outcome.record;
	struct message_verified v;

	if (in->answer->type != MSG_VERIFIED || message_get_verified(&in->answer->body, &v) != 0) {
		in->error = -EBADMSG;
		return;
	}
	s->outcome.fd = -1;
	if (write_verified(s->outcome.json, request, &v) != 0) {
		end_verify(s, 503, "stepd has no memory left for the answer");
		return;
	}
	if (!is_news(s, request)) {
		session_reply_json(s, 200, s->outcome.json, strlen(s->outcome.json));
		session_settle(s);
		return;
	}
	*r = s->record;
	r->verified_step = saved_of(s, request)->step;
	r->verified_kind = request->artifact;
	memcpy(r->verified_sha256, request->sha256, sizeof(r->verified_sha256));
	session_keep_outcome(s, NULL);
}
