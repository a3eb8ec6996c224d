/* After stepd was started again: a session that had a worker gets another one, from its anchor and
   the journal. Nobody has to ask for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/log.h"
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

void
session_revive(struct session *s)
{
	const struct config *c = s->stepd->config;
	struct model_dirs dirs = {c->model_dir, c->hf_home};
	const struct session_record *r = &s->record;
	const char *why;

	s->slot = slots_take(&s->stepd->sessions->slots);
	if (s->slot == NULL) {
		leave(s, "has no device: another session has it");
		return;
	}
	sessions_slots_changed(s->stepd);
	if (models_find(&dirs, r->base_model,
		r->model_revision[0] == '\0' ? NULL : r->model_revision, s->model_path,
		&why) != 0) {
		log_error("session %s: %s", r->id, why);
		leave(s, "has no model: it is not where it was");
	} else if (s->anchor.unreadable) {
		leave(s, "has a snapshot of a newer stepd");
	} else if (s->anchor.named) {
		s->state = SESSION_CHECKING;
		anchor_check(s);
	} else {
		checking_kept(s, NULL);
	}
}

void
checking_kept(struct session *s, struct session_input *in)
{
	(void)in;
	s->state = SESSION_CHECKING;
	if (s->stopping) {
		session_lose_worker(s);
	} else if (s->stepd->config->persist_data && !s->restore.read) {
		s->restore.read = true;
		datum_file_read(s);
	} else {
		session_recover(s);
	}
}

void
checking_not_kept(struct session *s, struct session_input *in)
{
	(void)in;
	leave(s, "has no snapshot: the spool does not hold it");
}
