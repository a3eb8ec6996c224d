#include "supervisor/session/session_status.h"

#include "ipc/message.h"

uint64_t
session_unsaved_steps(const struct session *s)
{
	return s->record.step - s->record.saved_step;
}

/* Why it needs somebody, "" = it does not. */
static const char *
reason(const struct session *s)
{
	if (s->state == SESSION_AWAITING)
		return "waits for its datums to be rendered again";
	return s->state == SESSION_NEEDS_RESTORE ? s->record.reason : "";
}

void
session_status_write(const struct session *s, struct json_writer *w)
{
	const struct session_record *r = &s->record;

	json_write_object(w);
	json_put_string(w, "session_id", r->id);
	json_put_string(w, "state", session_state_name(s->state));
	json_put_text(w, "reason", reason(s));
	json_put_string(w, "model", r->base_model);
	json_put_text(w, "model_revision", r->model_revision);
	json_put_uint(w, "lora_rank", r->lora_rank);
	json_put_uint(w, "seed", r->seed);
	json_put_text(w, "device", r->device);
	json_put_text(w, "compute", r->compute);
	json_put_uint(w, "step", r->step);
	json_put_uint(w, "unsaved_steps", session_unsaved_steps(s));
	json_write_key(w, "last_saved");
	if (r->saved_kind == 0) {
		json_write_null(w);
	} else {
		json_write_object(w);
		json_put_uint(w, "step", r->saved_step);
		json_put_string(w, "kind", r->saved_kind == ARTIFACT_STATE ? "state" : "sampling");
		json_put_string(w, "sha256", r->saved_sha256);
		json_write_object_end(w);
	}
	json_write_key(w, "verified_step");
	if (r->verified_kind == 0)
		json_write_null(w);
	else
		json_write_uint(w, r->verified_step);
	json_put_uint(w, "tokens_seen", r->tokens_seen);
	json_write_key(w, "last_losses");
	json_write_array(w);
	for (uint32_t i = 0; i < r->loss_count; i++)
		json_write_double(w, r->losses[i]);
	json_write_array_end(w);
	json_put_uint(w, "waiting_requests", s->waiting);
	json_put_uint(w, "restarts", s->restarts);
	json_put_uint(w, "replay_steps", r->step - s->anchor.step);
	if (s->restore.behind)
		json_put_uint(w, "restored_step", s->restore.step);
	if (s->restore.resend_to > r->step) {
		json_write_key(w, "steps_to_send_again");
		json_write_object(w);
		json_put_uint(w, "from", r->step + 1);
		json_put_uint(w, "to", s->restore.resend_to);
		json_write_object_end(w);
	}
	json_put_uint(w, "replay_differences", s->replay_differences);
	json_put_time(w, "opened_at", r->opened_at);
	json_put_time(w, "changed_at", r->changed_at);
	json_write_object_end(w);
}
