/* Recovery snapshots: now and then the worker writes its state to the spool, so that the journal to
   replay stays short. What fails here is told in the log only: the journal is still whole. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/spool.h"

/* Seconds between snapshots that cost the least, snapshots and replays together: sqrt(2 mu C), mu
   the time between failures, C the time that a snapshot takes (Young, 1974); a second until one was
   measured. */
static double
cadence(const struct session *s)
{
	double cost = s->anchor.cost > 0 ? s->anchor.cost : 1.0;

	return sqrt(2.0 * (double)s->stepd->config->failure_interval * cost);
}

bool
snapshot_is_possible(const struct session *s)
{
	const struct anchor *a = &s->anchor;

	return s->record.step > a->step && a->coming == NULL && s->record.step >= a->next_step &&
	       !s->restore.behind;
}

bool
snapshot_is_due(const struct session *s)
{
	const struct anchor *a = &s->anchor;
	uint64_t steps = s->record.step - a->step;

	if (!snapshot_is_possible(s))
		return false;
	return s->stopping || steps >= s->stepd->config->snapshot_steps ||
	       monotonic_seconds() - a->at >= cadence(s);
}

/* Not again for a while: a worker that cannot write one is of use all the same. */
static void
put_off(struct session *s)
{
	s->anchor.next_step = s->record.step + s->stepd->config->snapshot_steps;
}

static void
fail(struct session *s, const char *why)
{
	log_warning("session %s: no recovery snapshot at step %llu: %s", s->record.id,
	    (unsigned long long)s->record.step, why);
	put_off(s);
	session_drop_spool(s);
	session_go_on(s);
}

void
snapshot_begin(struct session *s)
{
	s->spool = spool_new(s->stepd->sessions->spool);
	if (s->spool < 0) {
		fail(s, strerror(-s->spool));
		return;
	}
	s->state = SESSION_SNAPSHOTTING;
	s->snapshot_begun = monotonic_seconds();
	session_ask_artifact(s, MSG_SAVE, ARTIFACT_STATE, s->spool, s->stepd->config->save_timeout);
}

void
snapshotting_answer(struct session *s, struct session_input *in)
{
	struct message_saved saved;
	int fd = s->spool;

	if (in->answer->type != MSG_SAVED || message_get_saved(&in->answer->body, &saved) != 0 ||
	    saved.step != s->record.step || strlen(saved.sha256) != 64 ||
	    spool_size(fd) != (int64_t)saved.size_bytes) {
		in->error = -EBADMSG;
		return;
	}
	s->spool = -1;
	anchor_begin(s, fd, saved.step, ARTIFACT_STATE, saved.sha256, s->snapshot_begun);
	session_go_on(s);
}

void
snapshotting_refused(struct session *s, struct session_input *in)
{
	fail(s, in->failed->detail);
}

void
snapshotting_died(struct session *s, struct session_input *in)
{
	(void)in;
	put_off(s);
	session_drop_spool(s);
	session_worker_gone(s);
}
