/* The slots and the sessions of the status document. */
#include "supervisor/session/child.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"
#include "supervisor/status/status_write.h"
#include "supervisor/stepd.h"

static const char *
slot_state(const struct slot *slot)
{
	return slot->taken ? "taken" : slot->closed ? "closed" : "free";
}

static void
put_slots(struct stepd *s, struct json_writer *w)
{
	const struct slots *slots = &s->sessions->slots;

	json_write_key(w, "slots");
	json_write_array(w);
	for (size_t i = 0; i < slots->count; i++) {
		const struct session *at = s->sessions->first;

		while (at != NULL && at->slot != &slots->slots[i])
			at = at->next;
		json_write_object(w);
		json_put_string(w, "device", slots->slots[i].device);
		json_put_string(w, "state", slot_state(&slots->slots[i]));
		json_put_string(w, "session_id", at != NULL ? at->record.id : NULL);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

/* Of the worker alone: its group's, or its limit; by: null is neither. */
static void
put_memory_limit(const struct child *c, struct json_writer *w)
{
	struct child_memory m = child_memory(c);

	json_write_key(w, "memory_limit");
	json_write_object(w);
	json_put_string(w, "by", m.bound != CHILD_BOUND_NONE ? child_bound_name(m.bound) : NULL);
	if (m.limit > 0)
		json_put_uint(w, "bytes", m.limit);
	else
		json_put_null(w, "bytes");
	if (m.peak > 0)
		json_put_uint(w, "peak_bytes", m.peak);
	else
		json_put_null(w, "peak_bytes");
	json_write_object_end(w);
}

static void
put_worker(const struct session *s, const struct status_facts *facts, struct json_writer *w)
{
	const struct fact_memory *m;

	json_write_key(w, "worker");
	if (s->child == NULL) {
		json_write_null(w);
		return;
	}
	m = status_facts_worker(facts, child_pid(s->child));
	json_write_object(w);
	json_put_int(w, "pid", child_pid(s->child));
	if (m != NULL) {
		json_put_uint(w, "rss_bytes", m->rss);
		json_put_uint(w, "peak_bytes", m->peak);
	} else {
		json_put_null(w, "rss_bytes");
		json_put_null(w, "peak_bytes");
	}
	put_memory_limit(s->child, w);
	json_put_text(w, "sandbox", s->sandbox);
	json_write_object_end(w);
}

/* How often it was brought back, and what its workers ended by that nobody had asked to end. */
static void
put_restarts(const struct session *s, struct json_writer *w)
{
	json_put_uint(w, "restarts", s->restarts);
	json_write_key(w, "worker_ends");
	json_write_object(w);
	for (int i = 0; i < CHILD_CLASSES; i++) {
		if (s->ends[i] > 0)
			json_put_uint(w, child_class_name((enum child_class)i), s->ends[i]);
	}
	json_write_object_end(w);
}

static void
put_session(const struct session *s, const struct status_facts *facts, struct json_writer *w)
{
	const struct session_record *r = &s->record;

	json_write_object(w);
	json_put_string(w, "session_id", r->id);
	json_put_string(w, "state", session_state_name(s->state));
	json_put_text(w, "reason", r->reason);
	json_put_string(w, "model", r->base_model);
	json_put_text(w, "device", r->device);
	json_put_text(w, "compute", r->compute);
	json_put_uint(w, "threads", r->threads);
	json_put_uint(w, "step", r->step);
	json_put_uint(w, "saved_step", r->saved_step);
	json_put_uint(w, "unsaved_steps", session_unsaved_steps(s));
	json_write_key(w, "last_loss");
	if (r->loss_count > 0)
		json_write_double(w, r->losses[r->loss_count - 1]);
	else
		json_write_null(w);
	json_write_key(w, "last_gradient_norm");
	if (s->stepped)
		json_write_double(w, s->last_step.gradient_norm);
	else
		json_write_null(w);
	json_put_uint(w, "tokens_seen", r->tokens_seen);
	json_put_uint(w, "waiting_requests", s->waiting);
	put_worker(s, facts, w);
	put_restarts(s, w);
	json_put_uint(w, "anchor_step", s->anchor.step);
	json_put_uint(w, "replay_steps", r->step - s->anchor.step);
	json_write_key(w, "steps_to_send_again");
	if (s->restore.resend_to > r->step) {
		json_write_object(w);
		json_put_uint(w, "from", r->step + 1);
		json_put_uint(w, "to", s->restore.resend_to);
		json_write_object_end(w);
	} else {
		json_write_null(w);
	}
	json_put_uint(w, "replay_differences", s->replay_differences);
	json_put_uint(w, "quarantined_requests", s->quarantined);
	json_write_object_end(w);
}

void
status_write_sessions(struct stepd *s, const struct status_facts *facts, struct json_writer *w)
{
	size_t listed = 0, open = 0, closed = 0;

	put_slots(s, w);
	json_write_key(w, "sessions");
	json_write_array(w);
	for (const struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (at->state == SESSION_CLOSED) {
			closed++;
			continue;
		}
		if (open++ >= STATUS_SESSIONS_MAX)
			continue;
		put_session(at, facts, w);
		listed++;
	}
	json_write_array_end(w);
	json_put_uint(w, "sessions_left_out", open - listed);
	json_put_uint(w, "sessions_closed", closed);
}
