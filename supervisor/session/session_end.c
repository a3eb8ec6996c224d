/* How requests and workers end: what comes next, and what becomes of a session without a worker. */
#include <stdio.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"

/* A session whose stepd stops is brought back by the next one; else it waits for somebody. */
void
session_lose_worker(struct session *s)
{
	struct session_input none = {0};

	s->state = SESSION_NEEDS_RESTORE;
	s->restore.failed = s->restore.newer = false;
	if (!s->stopping)
		s->record.fate = FATE_NEEDS_RESTORE;
	sessions_release(s);
	sessions_keep(s);
	if (s->first != NULL)
		session_event(s, EV_REQUEST, &none);
}

void
session_worker_gone(struct session *s)
{
	if (!s->stopping) {
		session_recover(s);
		return;
	}
	if (s->current != NULL)
		session_reply_detail(s, 503, session_lost_sentence(s));
	session_lose_worker(s);
}

static void
end_worker(struct session *s)
{
	s->state = SESSION_CLOSING;
	child_end(s->child);
}

/* Nothing is under way. */
static void
go_next(struct session *s)
{
	struct session_input none = {0};

	s->state = SESSION_READY;
	if (snapshot_is_due(s))
		snapshot_begin(s);
	else if (s->stopping && s->anchor.coming != NULL)
		s->state = SESSION_DRAINING;
	else if (s->stopping)
		end_worker(s);
	else if (s->restore.behind)
		session_replay(s);
	else if (s->first != NULL)
		session_event(s, EV_REQUEST, &none);
}

void
session_settle(struct session *s)
{
	if (s->child == NULL) {
		session_worker_gone(s);
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
	s->undone = true;
	end_worker(s);
}

void
session_give_up(struct session *s, unsigned status, const char *sentence, int fd)
{
	s->refusal.status = status;
	snprintf(s->refusal.text, sizeof(s->refusal.text), "%s", sentence);
	s->refusal.fd = fd;
	end_worker(s);
}

void
session_discard(struct session *s)
{
	struct session_request *request;

	while ((request = session_take(s)) != NULL) {
		if (request->kind == REQUEST_OPEN)
			session_refuse(s, request, 503,
			    "the opening that came before with this key failed: send it again");
		else
			session_refuse(s, request, 404, sessions_not_found);
	}
	anchor_drop(s);
	sessions_remove(s);
}

void
ready_died(struct session *s, struct session_input *in)
{
	(void)in;
	session_worker_gone(s);
}

/* Its state goes to the spool first, so that nothing has to be replayed. */
void
ready_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
	go_next(s);
}

/* The snapshot that was on its way has arrived: another one may be due. */
void
ready_anchored(struct session *s, struct session_input *in)
{
	(void)in;
	if (snapshot_is_due(s))
		snapshot_begin(s);
}

/* The last snapshot is on the disk, or cannot be: then the journal is replayed by the next stepd.
 */
void
draining_anchored(struct session *s, struct session_input *in)
{
	(void)in;
	session_settle(s);
}

void
busy_died(struct session *s, struct session_input *in)
{
	session_blame(s, in->death->class);
	session_worker_gone(s);
}

/* What is under way is finished first. */
void
busy_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
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
		session_close_for_good(s);
	} else if (s->restore.failed) {
		if (!s->stopping)
			snprintf(s->record.reason, sizeof(s->record.reason), "%s",
			    s->restore.newer ? "has a journal of a newer stepd"
					     : "could not be brought back");
		session_lose_worker(s);
	} else {
		snprintf(s->record.reason, sizeof(s->record.reason), "%s",
		    s->undone ? "was ended, for its step could not be kept" : "");
		s->undone = false;
		session_worker_gone(s);
	}
}
