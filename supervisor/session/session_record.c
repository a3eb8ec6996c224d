#include "supervisor/session/session_record.h"
#include "supervisor/session/slot.h"

#include <errno.h>
#include <string.h>

#include "ipc/wire.h"

long
session_record_put(const struct session_record *r, void *storage)
{
	struct wire_put w;

	wire_put_init(&w, storage, SESSION_RECORD_MAX);
	wire_put_u8(&w, SESSION_RECORD_VERSION);
	wire_put_string(&w, r->id);
	wire_put_u8(&w, r->fate);
	wire_put_string(&w, r->reason);
	wire_put_string(&w, r->base_model);
	wire_put_string(&w, r->model_revision);
	wire_put_string(&w, r->target_modules);
	wire_put_u32(&w, r->lora_rank);
	wire_put_u32(&w, r->seed);
	wire_put_u64(&w, r->maximum_datum_tokens);
	wire_put_f64(&w, r->lora_alpha);
	wire_put_f64(&w, r->lora_dropout);
	wire_put_f64(&w, r->weight_decay);
	wire_put_f64(&w, r->beta1);
	wire_put_f64(&w, r->beta2);
	wire_put_f64(&w, r->epsilon);
	wire_put_f64(&w, r->max_grad_norm);
	wire_put_string(&w, r->compute);
	wire_put_string(&w, r->device);
	wire_put_u64(&w, r->step);
	wire_put_u64(&w, r->tokens_seen);
	wire_put_u32(&w, r->loss_count);
	for (uint32_t i = 0; i < r->loss_count; i++)
		wire_put_f64(&w, r->losses[i]);
	wire_put_u64(&w, r->saved_step);
	wire_put_u8(&w, r->saved_kind);
	wire_put_string(&w, r->saved_sha256);
	wire_put_i64(&w, r->opened_at);
	wire_put_i64(&w, r->changed_at);
	for (size_t i = 0; i < 2; i++) {
		wire_put_u64(&w, r->saved[i].step);
		wire_put_u64(&w, r->saved[i].size);
		wire_put_string(&w, r->saved[i].sha256);
	}
	wire_put_u64(&w, r->verified_step);
	wire_put_u8(&w, r->verified_kind);
	wire_put_string(&w, r->verified_sha256);
	wire_put_u32(&w, r->threads);
	wire_put_u8(&w, r->kind);
	wire_put_u64(&w, r->micro_batch);
	return wire_put_end(&w);
}

static void
get_artifacts(struct wire_get *w, struct session_record *r)
{
	for (size_t i = 0; i < 2; i++) {
		r->saved[i].step = wire_get_u64(w);
		r->saved[i].size = wire_get_u64(w);
		wire_get_text(w, r->saved[i].sha256, sizeof(r->saved[i].sha256));
	}
	r->verified_step = wire_get_u64(w);
	r->verified_kind = wire_get_u8(w);
	wire_get_text(w, r->verified_sha256, sizeof(r->verified_sha256));
}

int
session_record_get(struct session_record *r, const void *data, size_t len)
{
	struct wire_get w;
	int version;

	memset(r, 0, sizeof(*r));
	wire_get_init(&w, data, len);
	version = wire_get_version(&w, SESSION_RECORD_VERSION);
	if (version < 0)
		return version;
	wire_get_text(&w, r->id, sizeof(r->id));
	r->fate = wire_get_u8(&w);
	wire_get_text(&w, r->reason, sizeof(r->reason));
	wire_get_text(&w, r->base_model, sizeof(r->base_model));
	wire_get_text(&w, r->model_revision, sizeof(r->model_revision));
	wire_get_text(&w, r->target_modules, sizeof(r->target_modules));
	r->lora_rank = wire_get_u32(&w);
	r->seed = wire_get_u32(&w);
	r->maximum_datum_tokens = wire_get_u64(&w);
	r->lora_alpha = wire_get_f64(&w);
	r->lora_dropout = wire_get_f64(&w);
	r->weight_decay = wire_get_f64(&w);
	r->beta1 = wire_get_f64(&w);
	r->beta2 = wire_get_f64(&w);
	r->epsilon = wire_get_f64(&w);
	r->max_grad_norm = wire_get_f64(&w);
	wire_get_text(&w, r->compute, sizeof(r->compute));
	wire_get_text(&w, r->device, sizeof(r->device));
	r->step = wire_get_u64(&w);
	r->tokens_seen = wire_get_u64(&w);
	r->loss_count = wire_get_u32(&w);
	if (r->loss_count > RECENT_LOSSES)
		return -EBADMSG;
	for (uint32_t i = 0; i < r->loss_count; i++)
		r->losses[i] = wire_get_f64(&w);
	r->saved_step = wire_get_u64(&w);
	r->saved_kind = wire_get_u8(&w);
	wire_get_text(&w, r->saved_sha256, sizeof(r->saved_sha256));
	r->opened_at = wire_get_i64(&w);
	r->changed_at = wire_get_i64(&w);
	if (version >= 2)
		get_artifacts(&w, r);
	else if (r->saved_kind == 1 || r->saved_kind == 2)
		session_record_set_saved(r, r->saved_kind, r->saved_step, 0, r->saved_sha256);
	if (version >= 3)
		r->threads = wire_get_u32(&w);
	if (version >= 4)
		r->kind = wire_get_u8(&w);
	if (version >= 5)
		r->micro_batch = wire_get_u64(&w);
	if (r->id[0] == '\0' || r->fate < FATE_NEEDS_RESTORE || r->fate > FATE_OPEN ||
	    r->kind > SLOT_GPU)
		return -EBADMSG;
	return wire_get_end(&w);
}

void
session_record_set_saved(
    struct session_record *r, uint8_t kind, uint64_t step, uint64_t size, const char sha256[65])
{
	struct saved_artifact *saved = &r->saved[kind - 1];

	r->saved_step = saved->step = step;
	r->saved_kind = kind;
	saved->size = size;
	memmove(saved->sha256, sha256, sizeof(saved->sha256));
	memmove(r->saved_sha256, sha256, sizeof(r->saved_sha256));
}

void
session_record_add_loss(struct session_record *r, double loss)
{
	if (r->loss_count == RECENT_LOSSES)
		memmove(r->losses, r->losses + 1, sizeof(r->losses) - sizeof(r->losses[0]));
	else
		r->loss_count++;
	r->losses[r->loss_count - 1] = loss;
}
