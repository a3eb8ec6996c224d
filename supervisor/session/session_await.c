/* A session on its way back whose datums are not there: only the client has their text. It waits,
   with its worker, at the step that the journal could be followed to. */
#include <stdio.h>

#include "ipc/log.h"
#include "supervisor/session/session_action.h"

/* What is under way or waits for a session whose datums are missing. */
static const char *
behind_sentence(const struct session *s)
{
	static char sentence[256];

	snprintf(sentence, sizeof(sentence),
	    "the session is back at step %llu of %llu: its datums were in the memory of a stepd "
	    "that has ended; render them again, then send this again",
	    (unsigned long long)s->restore.step, (unsigned long long)s->record.step);
	return sentence;
}

/* Renders are served, verifying and closing; the journal goes on by itself as soon as it can. */
static void
serve_behind(struct session *s)
{
	struct session_request *request;

	while ((request = session_take_new(s)) != NULL) {
		if (request->kind == REQUEST_RENDER || request->kind == REQUEST_CLOSE ||
		    request->kind == REQUEST_VERIFY) {
			s->current = request;
			session_begin(s);
			return;
		}
		session_refuse(s, request, 503, behind_sentence(s));
	}
}

void
session_await(struct session *s)
{
	s->state = SESSION_AWAITING;
	if (!s->restore.behind)
		log_warning("session %s: at step %llu of %llu, waiting for its datums to be "
			    "rendered again",
		    s->record.id, (unsigned long long)s->restore.step,
		    (unsigned long long)s->record.step);
	s->restore.behind = true;
	s->restore.tries = 0;
	if (s->current != NULL &&
	    (s->current->kind == REQUEST_RENDER || s->current->kind == REQUEST_VERIFY ||
		s->current->kind == REQUEST_RESTORE)) {
		session_begin(s);
		return;
	}
	if (s->current != NULL)
		session_reply_detail(s, 503, behind_sentence(s));
	serve_behind(s);
}

void
awaiting_request(struct session *s, struct session_input *in)
{
	(void)in;
	serve_behind(s);
}
