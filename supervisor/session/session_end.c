/* How requests, workers and sessions end. */
#include <stdio.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"

static const char not_found[] = "training session not found";

void
session_lose_worker(struct session *s)
{
	struct session_input none = {0};

	s->state = SESSION_NEEDS_RESTORE;
	sessions_release(s);
	sessions_keep(s);
	if (s->first != NULL)
		session_event(s, EV_REQUEST, &none);
}

static void
without_worker(struct session *s)
{
	if (!s->stopping) {
		session_recover(s);
		return;
	}
	if (s->current != NULL)
		session_reply_detail(s, 503, session_lost_sentence(s));
	session_lose_worker(s);
}

/* Nothing is under way. */
static void
go_next(struct session *s)
{
	struct session_input none = {0};

	s->state = SESSION_READY;
	if (s->stopping)
		session_event(s, EV_STOP, &none);
	else if (snapshot_is_due(s))
		snapshot_begin(s);
	else if (s->first != NULL)
		session_event(s, EV_REQUEST, &none);
}

void
session_settle(struct session *s)
{
	if (s->child == NULL) {
		without_worker(s);
		return;
	}
	s->restore.tries = 0;
	go_next(s);
}

void
session_go_on(struct session *s)
{
	if (s->current != NULL)
		session_begin(s);
	else
		go_next(s);
}

void
session_undo(struct session *s)
{
	s->state = SESSION_CLOSING;
	s->undone = true;
	child_end(s->child);
}

void
session_give_up(struct session *s, unsigned status, const char *sentence, int fd)
{
	s->refusal.status = status;
	snprintf(s->refusal.text, sizeof(s->refusal.text), "%s", sentence);
	s->refusal.fd = fd;
	s->state = SESSION_CLOSING;
	child_end(s->child);
}

void
session_discard(struct session *s)
{
	struct session_request *request;

	while ((request = session_take(s)) != NULL)
		session_refuse(s, request, 404, not_found);
	sessions_remove(s);
}

void
ready_died(struct session *s, struct session_input *in)
{
	(void)in;
	without_worker(s);
}

void
ready_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
	s->state = SESSION_CLOSING;
	child_end(s->child);
}

void
busy_died(struct session *s, struct session_input *in)
{
	session_blame(s, in->death->class);
	without_worker(s);
}

/* What is under way is finished first. */
void
busy_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
}

/* Closed for good: 404 for whatever still waits, but a second DELETE is as good as the first. */
static void
answer_closed(struct session *s)
{
	struct session_request *request;

	while ((request = session_take(s)) != NULL) {
		if (request->kind == REQUEST_CLOSE) {
			s->current = request;
			session_reply_status(s);
		} else {
			session_refuse(s, request, 404, not_found);
		}
	}
}

static void
close_for_good(struct session *s)
{
	s->state = SESSION_CLOSED;
	s->record.fate = FATE_CLOSED;
	s->record.reason[0] = '\0';
	sessions_release(s);
	sessions_keep(s);
	datum_log_fini(&s->datums);
	anchor_drop(s);
	log_info(
	    "session %s: closed at step %llu", s->record.id, (unsigned long long)s->record.step);
}

bool
session_answer_without_worker(struct session *s)
{
	struct session_request *request;
	bool closed = false;

	if (s->current != NULL)
		session_reply_detail(s, 503, session_lost_sentence(s));
	while (!closed && (request = session_take(s)) != NULL) {
		if (request->kind != REQUEST_CLOSE) {
			session_refuse(s, request, 503, session_lost_sentence(s));
		} else if (session_unsaved_steps(s) > 0 && !request->force) {
			session_refuse(s, request, 409,
			    "the session has steps that no upload holds: close it with "
			    "?force=true");
		} else {
			close_for_good(s);
			s->current = request;
			session_reply_status(s);
			closed = true;
		}
	}
	if (closed)
		answer_closed(s);
	return closed;
}

void
needs_restore_request(struct session *s, struct session_input *in)
{
	(void)in;
	session_answer_without_worker(s);
}

/* Its worker is going: answered when it has gone. */
void
closing_request(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}

void
closing_died(struct session *s, struct session_input *in)
{
	(void)in;
	if (!s->opened) {
		struct message_failed failed = {s->refusal.status, s->refusal.text};

		/* The slot first: the client may open again as soon as it reads this. */
		sessions_release(s);
		session_reply_failed(s, &failed, s->refusal.fd);
		session_discard(s);
	} else if (s->current != NULL) {
		close_for_good(s);
		session_reply_status(s);
		answer_closed(s);
	} else if (s->restore.failed) {
		snprintf(s->record.reason, sizeof(s->record.reason), "could not be brought back");
		session_lose_worker(s);
	} else {
		snprintf(s->record.reason, sizeof(s->record.reason), "%s",
		    s->undone ? "was ended, for its step could not be kept" : "");
		s->undone = false;
		without_worker(s);
	}
}

void
closed_request(struct session *s, struct session_input *in)
{
	(void)in;
	answer_closed(s);
}
