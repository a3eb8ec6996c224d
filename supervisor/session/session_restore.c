/* Bringing a session back after its worker died: another worker, the anchor, the datums, and the
   steps since then from the journal, each compared with what it was. The request under way waits,
   and is then done as if nothing had been. */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "ipc/refusal.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/events.h"
#include "supervisor/stepd.h"
#include "supervisor/store/spool.h"
#include "supervisor/store/store.h"

/* REFUSALS: workers that refuse before it is given up. TRIES_TOLD: workers that failed in a row
   before those who wait are told; one that was back for STEADY_SECONDS is none of them. */
enum {
	REFUSALS = 3,
	TRIES_TOLD = 10,
	FIRST_WAIT_MS = 100,
	LONGEST_WAIT_MS = 10000,
	STEADY_SECONDS = 60,
	SHORT_WAIT_NS = 50000000,
};

/* It cannot be brought back by trying again: the request under way is told, then those in line. */
static void
give_up(struct session *s)
{
	if (s->current != NULL)
		session_reply_detail(s, 503, session_lost_sentence(s));
	s->restore.failed = true;
	if (s->child == NULL) {
		session_lose_worker(s);
		return;
	}
	s->state = SESSION_CLOSING;
	child_end(s->child);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct session_input none = {0};

	(void)fd;
	(void)what;
	session_event(arg, EV_TIMER, &none);
}

int
session_restore_init(struct session *s)
{
	s->restore.timer = evtimer_new(s->stepd->base, on_timer, s);
	return s->restore.timer != NULL ? 0 : -ENOMEM;
}

/* Without memory to wait by the clock: the loop serves others once more, a little later. */
static void
wait_without_memory(struct session *s)
{
	struct timespec pause = {0, SHORT_WAIT_NS};

	if (!s->restore.untimed)
		log_error("session %s: no memory to wait before it is brought back", s->record.id);
	s->restore.untimed = true;
	nanosleep(&pause, NULL);
	event_active(s->restore.timer, EV_TIMEOUT, 0);
}

/* What ends workers from outside (the machine has no memory, somebody kills) may pass: it is tried
   for as long as the session is wanted, and nobody waits for it longer than for a few workers. */
void
session_recover(struct session *s)
{
	struct session_restore *r = &s->restore;
	unsigned wait = LONGEST_WAIT_MS;
	struct timeval tv;

	if (s->slot->failed) {
		r->waits_for_device = true;
		give_up(s);
		return;
	}
	s->state = SESSION_RESTORING;
	if (r->back_at != 0 && monotonic_seconds() - r->back_at >= STEADY_SECONDS)
		r->tries = 0;
	r->back_at = 0;
	if (r->tries >= TRIES_TOLD) {
		log_error("session %s: %u workers in a row ended before they did anything; the "
			  "next try is in %u s",
		    s->record.id, r->tries, LONGEST_WAIT_MS / 1000);
		if (session_answer_without_worker(s))
			return;
	} else {
		wait = r->tries == 0 ? 0 : FIRST_WAIT_MS << (r->tries - 1);
	}
	if (wait > LONGEST_WAIT_MS)
		wait = LONGEST_WAIT_MS;
	tv = (struct timeval){wait / 1000, (wait % 1000) * 1000};
	if (evtimer_add(r->timer, &tv) != 0) {
		wait_without_memory(s);
		return;
	}
	r->untimed = false;
	r->tries++;
}

/* Not while an anchor is on its way: the journal would be cut under the replay. */
void
restoring_timer(struct session *s, struct session_input *in)
{
	const char *why = NULL;

	(void)in;
	if (s->anchor.coming != NULL)
		return;
	if (s->model_path[0] == '\0' && session_find_model(s, &why) != 0) {
		log_warning("session %s: %s", s->record.id, why);
		session_recover(s);
	} else if (session_start_worker(s) == 0) {
		s->state = SESSION_RESTARTING;
	} else {
		session_recover(s);
	}
}

void
restoring_anchored(struct session *s, struct session_input *in)
{
	if (!evtimer_pending(s->restore.timer, NULL))
		restoring_timer(s, in);
}

/* In the number format that it had, "auto" might choose another this time, with as many threads and
   split by as many tokens: sums of other parts round otherwise. */
void
restarting_started(struct session *s, struct session_input *in)
{
	(void)in;
	s->state = SESSION_REOPENING;
	session_send_open(s, s->record.compute);
}

static void
restored(struct session *s)
{
	s->restore.behind = false;
	s->restore.refused = 0;
	s->restore.back_at = monotonic_seconds();
	if (s->anchor.at == 0)
		s->anchor.at = monotonic_seconds();
	log_info("session %s: brought back to step %llu, %llu of them from the journal",
	    s->record.id, (unsigned long long)s->record.step,
	    (unsigned long long)(s->record.step - s->anchor.step));
	s->restarts++;
	events_restarted(s, s->record.step - s->anchor.step);
	s->record.reason[0] = '\0';
	session_go_on(s);
}

/* With another worker, where what failed may pass: there was no memory, or a newer snapshot took
   the place of the anchor and of the journal up to it while this worker was brought to the old one.
 */
static void
fail(struct session *s, int error)
{
	const struct anchor *a = &s->anchor;

	if (error == -ENOENT && (a->coming != NULL || a->step > s->restore.step))
		error = -EAGAIN;
	if (error == -ENOENT || error == -EBADMSG || error == -EPROTO) {
		give_up(s);
		return;
	}
	s->state = SESSION_REPLAYING;
	child_end(s->child);
}

/* The next step of the journal, or the end. */
void
session_replay(struct session *s)
{
	struct session_restore *r = &s->restore;
	struct journal_step step;
	void *data;
	int error, fd;

	if (r->step == s->record.step) {
		restored(s);
		return;
	}
	error = journal_read(s->stepd->store, s->record.id, r->step + 1, &step, &data);
	fd = error == 0 ? blob_from("datum-ids", step.ids, step.ids_len) : error;
	if (fd < 0) {
		log_error("session %s: step %llu of the journal: %s", s->record.id,
		    (unsigned long long)r->step + 1,
		    fd == -EPROTO ? "a newer stepd wrote it" : strerror(-fd));
		r->newer = fd == -EPROTO;
		free(data);
		fail(s, fd);
		return;
	}
	r->loss = step.loss;
	r->gradient_norm = step.gradient_norm;
	free(data);
	s->state = SESSION_REPLAYING;
	session_ask_step(s, step.learning_rate, r->step, fd);
	close(fd);
}

/* The next part of the datums, or on to the journal. */
static void
resend(struct session *s)
{
	struct session_restore *r = &s->restore;
	int fd;

	if (r->part == s->datums.count) {
		session_replay(s);
		return;
	}
	fd = datum_log_part(&s->datums, r->part);
	if (fd < 0) {
		log_error("session %s: its datums: %s", s->record.id, strerror(-fd));
		fail(s, fd);
		return;
	}
	s->state = SESSION_RESENDING;
	session_ask(s, MSG_DATUMS, NULL, 0, fd, s->stepd->config->load_timeout);
	close(fd);
}

void
reopening_answer(struct session *s, struct session_input *in)
{
	struct message_opened answer;
	int fd;

	if (in->answer->type != MSG_OPENED || message_get_opened(&in->answer->body, &answer) != 0) {
		in->error = -EBADMSG;
		return;
	}
	snprintf(s->sandbox, sizeof(s->sandbox), "%s", answer.sandbox);
	if (s->record.micro_batch == 0) /* of a session of an older stepd */
		s->record.micro_batch = answer.micro_batch;
	s->restore.part = 0;
	s->restore.step = 0;
	if (s->anchor.fd < 0) {
		resend(s);
		return;
	}
	fd = spool_read_only(s->anchor.fd);
	if (fd < 0) {
		log_error("session %s: its snapshot: %s", s->record.id, strerror(-fd));
		fail(s, fd);
		return;
	}
	s->state = SESSION_RELOADING;
	session_ask_artifact(s, MSG_LOAD, s->anchor.kind, fd, s->stepd->config->load_timeout);
	close(fd);
}

void
reloading_answer(struct session *s, struct session_input *in)
{
	struct message_loaded answer;

	if (in->answer->type != MSG_LOADED || message_get_loaded(&in->answer->body, &answer) != 0 ||
	    answer.step != s->anchor.step) {
		in->error = -EBADMSG;
		return;
	}
	s->restore.step = answer.step;
	if (answer.step == s->record.step)
		s->record.tokens_seen = answer.tokens_seen;
	resend(s);
}

void
resending_answer(struct session *s, struct session_input *in)
{
	if (in->answer->type != MSG_DATUMS_KEPT || wire_get_end(&in->answer->body) != 0) {
		in->error = -EBADMSG;
		return;
	}
	s->restore.part++;
	resend(s);
}

void
replaying_answer(struct session *s, struct session_input *in)
{
	struct session_restore *r = &s->restore;
	struct message_trained t;

	if (in->answer->type != MSG_TRAINED || message_get_trained(&in->answer->body, &t) != 0 ||
	    t.step != r->step + 1) {
		in->error = -EBADMSG;
		return;
	}
	/* The very bits: a session that is brought back has to be the same one. */
	if (memcmp(&t.loss, &r->loss, sizeof(t.loss)) != 0 ||
	    memcmp(&t.gradient_norm, &r->gradient_norm, sizeof(t.gradient_norm)) != 0) {
		s->replay_differences++;
		log_error("session %s: step %llu replayed differs: loss %.17g was %.17g, gradient "
			  "norm %.17g was %.17g",
		    s->record.id, (unsigned long long)t.step, t.loss, r->loss, t.gradient_norm,
		    r->gradient_norm);
	}
	r->step = t.step;
	session_replay(s);
}

void
restoring_refused(struct session *s, struct session_input *in)
{
	if (s->state == SESSION_REPLAYING &&
	    strcmp(in->failed->detail, REFUSAL_UNKNOWN_DATUM) == 0) {
		session_await(s);
		return;
	}
	log_error("session %s: the worker refuses to bring it back: %s", s->record.id,
	    in->failed->detail);
	/* It was there once: what a worker lacks (memory, descriptors, a file) the next may have.
	 */
	if ((s->current == NULL || s->current->kind != REQUEST_RESTORE) &&
	    (in->failed->status >= 500 || s->restore.refused++ < REFUSALS)) {
		fail(s, -EAGAIN);
		return;
	}
	if (s->current != NULL && s->current->kind == REQUEST_RESTORE) {
		session_reply_failed(s, in->failed, in->answer->fd);
		in->answer->fd = -1;
	}
	give_up(s);
}

void
restoring_died(struct session *s, struct session_input *in)
{
	(void)in;
	session_recover(s);
}

void
restoring_stop(struct session *s, struct session_input *in)
{
	(void)in;
	s->stopping = true;
	evtimer_del(s->restore.timer);
	give_up(s);
}
