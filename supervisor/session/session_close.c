/* Closing for good, with a worker or without: the store holds it before the client is told. */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ipc/log.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

/* 404 for whatever still waits, but a second DELETE is as good as the first. */
static void
answer_closed(struct session *s)
{
	struct session_request *request;

	while ((request = session_take(s)) != NULL) {
		if (session_answer_again(s, request))
			continue;
		if (request->kind == REQUEST_CLOSE) {
			s->current = request;
			session_reply_status(s);
		} else {
			session_refuse(s, request, 404, sessions_not_found);
		}
	}
}

/* That the key was used: closing again gives the same answer, which need not be kept. */
static struct store_write
used_key(const struct session *s, uint8_t key[KEPT_KEY_MAX], uint8_t packed[KEPT_ANSWER_MAX])
{
	struct kept_answer answer = {.kind = (uint8_t)s->current->kind,
	    .step = s->record.step,
	    .at = kept_clock_seconds(),
	    .json = ""};

	memcpy(answer.digest, s->current->digest, sizeof(answer.digest));
	return (struct store_write){STORE_ANSWERS, key,
	    kept_answer_key(key, s->record.id, s->current->key), packed,
	    (size_t)kept_answer_put(&answer, packed)};
}

void
session_close_for_good(struct session *s)
{
	uint8_t packed[SESSION_RECORD_MAX], key[KEPT_KEY_MAX], answer[KEPT_ANSWER_MAX];
	struct store_write writes[4] = {
	    {STORE_SESSIONS, s->record.id, strlen(s->record.id), packed, 0},
	    {STORE_ANCHORS, s->record.id, strlen(s->record.id), NULL, 0},
	    {STORE_UPLOADS, s->record.id, strlen(s->record.id), NULL, 0},
	};
	size_t count = 3;
	struct session_record closed = s->record;
	long len;

	s->state = SESSION_ENDING;
	closed.fate = FATE_CLOSED;
	closed.reason[0] = '\0';
	closed.changed_at = (int64_t)time(NULL);
	len = session_record_put(&closed, packed);
	writes[0].len = len < 0 ? 0 : (size_t)len;
	if (s->current->key != NULL)
		writes[count++] = used_key(s, key, answer);
	if (len < 0 || store_commit(s->stepd->store, writes, count, session_kept, s) != 0)
		session_kept(s, -ENOMEM);
}

void
ending_kept(struct session *s, struct session_input *in)
{
	(void)in;
	s->state = SESSION_CLOSED;
	s->record.fate = FATE_CLOSED;
	s->record.reason[0] = '\0';
	s->record.changed_at = (int64_t)time(NULL);
	sessions_release(s);
	if (s->restore.timer != NULL)
		event_free(s->restore.timer);
	s->restore.timer = NULL;
	datum_log_fini(&s->datums);
	datum_file_drop(s);
	upload_fini(&s->upload);
	anchor_drop(s);
	log_info(
	    "session %s: closed at step %llu", s->record.id, (unsigned long long)s->record.step);
	session_reply_status(s);
	answer_closed(s);
}

/* It stays what it was, without a worker. */
void
ending_not_kept(struct session *s, struct session_input *in)
{
	(void)in;
	session_reply_detail(
	    s, 507, "the trainer has no disk space to keep that the session is closed");
	if (s->slot != NULL) {
		session_settle(s);
		return;
	}
	s->state = SESSION_NEEDS_RESTORE;
	session_answer_without_worker(s);
}

bool
session_answer_without_worker(struct session *s)
{
	struct session_request *request;

	if (s->current != NULL)
		session_reply_detail(s, 503, session_lost_sentence(s));
	while ((request = session_take(s)) != NULL) {
		if (session_answer_again(s, request)) {
			continue;
		} else if (request->kind == REQUEST_RESTORE && s->state == SESSION_NEEDS_RESTORE) {
			s->current = request;
			session_recall_asked(s);
			if (s->state == SESSION_RECALLING)
				return false;
		} else if (request->kind != REQUEST_CLOSE) {
			session_refuse(s, request, 503, session_lost_sentence(s));
		} else if (session_unsaved_steps(s) > 0 && !request->force) {
			session_refuse(s, request, 409,
			    "the session has steps that no upload holds: close it with "
			    "?force=true");
		} else {
			s->current = request;
			session_close_for_good(s);
			return true;
		}
	}
	return false;
}

void
needs_restore_request(struct session *s, struct session_input *in)
{
	(void)in;
	session_answer_without_worker(s);
}

void
closed_request(struct session *s, struct session_input *in)
{
	(void)in;
	answer_closed(s);
}
