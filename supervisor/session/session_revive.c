/* After stepd was started again: a session that had a worker gets another one, from its anchor and
   the journal. Nobody has to ask for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/devices.h"
#include "supervisor/session/devices_again.h"
#include "supervisor/session/models.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"

/* It stays without a worker; `why` follows "the worker". */
static void
leave(struct session *s, const char *why)
{
	snprintf(s->record.reason, sizeof(s->record.reason), "%s", why);
	log_error("session %s: not brought back: the worker %s", s->record.id, why);
	session_lose_worker(s);
}

/* Sums of another kind of device would be other ones: its steps could not be shown to be the same.
 */
static bool
has_kind(const struct session *s)
{
	return slots_have(&s->stepd->sessions->slots, s->record.kind);
}

/* Why it has no place: behind "the worker", and as a sentence. */
static const char *
kind_text(const struct session *s)
{
	switch (s->record.kind) {
	case SLOT_CPU:
		return "was on the CPU, which is not used now";
	case SLOT_GPU:
		return "was on a GPU, and none is used now";
	default:
		return "has no device: none computes";
	}
}

static const char *
place_text(const struct session *s)
{
	switch (s->record.kind) {
	case SLOT_CPU:
		return "the session was on the CPU, which is not used now (STEPD_DEVICES)";
	case SLOT_GPU:
		return "the session was on a GPU, and none is used now (STEPD_DEVICES)";
	default:
		return "accelerator unavailable";
	}
}

int
session_find_model(struct session *s, const char **why)
{
	const struct config *c = s->stepd->config;
	struct model_dirs dirs = {c->model_dir, c->hf_home};
	const struct session_record *r = &s->record;
	int error = models_find(&dirs, r->base_model,
	    r->model_revision[0] == '\0' ? NULL : r->model_revision, s->model_path, why);

	if (error != 0)
		s->model_path[0] = '\0';
	return error;
}

bool
session_take_place(struct session *s, const char **why)
{
	int error;

	s->slot = slots_take(&s->stepd->sessions->slots, s->record.kind);
	if (s->slot == NULL) {
		*why = has_kind(s) ? "a training session is already active" : place_text(s);
		return false;
	}
	s->restore.waits_for_device = false;
	s->record.kind = s->slot->kind;
	devices_taken(s->stepd, s->slot);
	if (s->slot->kind == SLOT_GPU)
		snprintf(s->record.device, sizeof(s->record.device), "%s", s->slot->name);
	sessions_slots_changed(s->stepd);
	error = session_find_model(s, why);
	return error == 0 || error == -EAGAIN;
}

/* It has its place. From its anchor, which this stepd may not have read yet. 0 or -ENOMEM. */
static int
bring_back(struct session *s)
{
	if (s->anchor.unreadable) {
		leave(s, "has a snapshot of a newer stepd");
	} else if (s->anchor.named && s->anchor.fd < 0) {
		s->anchor.pruned = s->upload.url != NULL && s->upload.url_step < s->anchor.step
				       ? s->upload.url_step
				       : s->anchor.step;
		s->state = SESSION_CHECKING;
		return anchor_check(s);
	} else {
		checking_kept(s, NULL);
	}
	return 0;
}

int
session_revive(struct session *s)
{
	const char *why;

	if (session_take_place(s, &why))
		return bring_back(s);
	log_error("session %s: %s", s->record.id, why);
	if (s->slot == NULL)
		session_wait_for_device(s);
	leave(s, s->slot != NULL ? "has no model: it is not where it was"
		 : has_kind(s)	 ? "has no device: another session has it"
				 : kind_text(s));
	return 0;
}

void
session_wait_for_device(struct session *s)
{
	s->restore.waits_for_device =
	    s->record.kind != SLOT_CPU && devices_wanted(s->stepd->config);
}

/* Its datums may have gone while others had the device. */
void
session_come_back(struct session *s)
{
	const char *why;

	if (!session_take_place(s, &why)) {
		log_error("session %s: %s", s->record.id, why);
		sessions_release(s);
		return;
	}
	s->restore.read = false;
	s->restore.tries = 0;
	s->record.fate = FATE_OPEN;
	sessions_keep(s);
	if (bring_back(s) == 0)
		return;
	session_wait_for_device(s);
	leave(s, "has no snapshot: no memory to read it");
}

void
checking_kept(struct session *s, struct session_input *in)
{
	(void)in;
	session_went_back(s, true);
	s->state = SESSION_CHECKING;
	if (s->stopping) {
		if (s->current != NULL)
			session_reply_detail(s, 503, "the trainer is stopping");
		session_lose_worker(s);
	} else if (s->stepd->config->persist_data && !s->restore.read) {
		s->restore.read = true;
		datum_file_read(s);
	} else {
		session_recover(s);
	}
}

/* A spool that is gone is not the end where an upload can be fetched. */
void
checking_not_kept(struct session *s, struct session_input *in)
{
	(void)in;
	session_went_back(s, false);
	if (s->current != NULL) {
		session_reply_detail(s, 507, "the trainer has no disk space to go back");
		leave(s, "has no snapshot: the spool does not hold it");
	} else if (s->stopping || !session_recall(s)) {
		leave(s, s->anchor.unread ? "has a snapshot that cannot be read"
					  : "has no snapshot: the spool does not hold it");
		/* The next stepd looks again. */
		if (s->anchor.unread && s->state == SESSION_NEEDS_RESTORE) {
			s->record.fate = FATE_OPEN;
			sessions_keep(s);
		}
	}
}
