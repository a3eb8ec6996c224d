#include "ipc/message.h"

#include <stddef.h>

const char *
message_name(unsigned type)
{
	switch (type) {
#define MESSAGE_CASE(name, number, fd)                                                             \
	case number:                                                                               \
		return #name;
		MESSAGE_LIST(MESSAGE_CASE)
#undef MESSAGE_CASE
	}
	return NULL;
}

void
message_put_ready(struct wire_put *w, const struct message_ready *m)
{
	wire_put_u32(w, m->protocol);
	wire_put_string(w, m->build);
	wire_put_string(w, m->device);
}

int
message_get_ready(struct wire_get *r, struct message_ready *m)
{
	m->protocol = wire_get_u32(r);
	m->build = wire_get_string(r);
	m->device = wire_get_string(r);
	return wire_get_end(r);
}

void
message_put_open(struct wire_put *w, const struct message_open *m)
{
	wire_put_string(w, m->session_id);
	wire_put_string(w, m->base_model);
	wire_put_string(w, m->model_revision);
	wire_put_string(w, m->model_path);
	wire_put_u32(w, m->lora_rank);
	wire_put_f64(w, m->lora_alpha);
	wire_put_f64(w, m->lora_dropout);
	wire_put_string(w, m->target_modules);
	wire_put_u64(w, m->seed);
	wire_put_u64(w, m->maximum_datum_tokens);
	wire_put_f64(w, m->weight_decay);
	wire_put_f64(w, m->beta1);
	wire_put_f64(w, m->beta2);
	wire_put_f64(w, m->epsilon);
	wire_put_f64(w, m->max_grad_norm);
	wire_put_string(w, m->compute);
	wire_put_u32(w, m->threads);
	wire_put_u64(w, m->micro_batch);
	wire_put_u64(w, m->memory_limit);
}

int
message_get_open(struct wire_get *r, struct message_open *m)
{
	m->session_id = wire_get_string(r);
	m->base_model = wire_get_string(r);
	m->model_revision = wire_get_string(r);
	m->model_path = wire_get_string(r);
	m->lora_rank = wire_get_u32(r);
	m->lora_alpha = wire_get_f64(r);
	m->lora_dropout = wire_get_f64(r);
	m->target_modules = wire_get_string(r);
	m->seed = wire_get_u64(r);
	m->maximum_datum_tokens = wire_get_u64(r);
	m->weight_decay = wire_get_f64(r);
	m->beta1 = wire_get_f64(r);
	m->beta2 = wire_get_f64(r);
	m->epsilon = wire_get_f64(r);
	m->max_grad_norm = wire_get_f64(r);
	m->compute = wire_get_string(r);
	m->threads = wire_get_u32(r);
	m->micro_batch = wire_get_u64(r);
	m->memory_limit = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_opened(struct wire_put *w, const struct message_opened *m)
{
	wire_put_string(w, m->compute);
	wire_put_string(w, m->device);
	wire_put_u64(w, m->adapter_parameters);
	wire_put_u64(w, m->base_parameters);
	wire_put_u32(w, m->adapted_modules);
	wire_put_string(w, m->sandbox);
	wire_put_u64(w, m->micro_batch);
}

int
message_get_opened(struct wire_get *r, struct message_opened *m)
{
	m->compute = wire_get_string(r);
	m->device = wire_get_string(r);
	m->adapter_parameters = wire_get_u64(r);
	m->base_parameters = wire_get_u64(r);
	m->adapted_modules = wire_get_u32(r);
	m->sandbox = wire_get_string(r);
	m->micro_batch = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_artifact(struct wire_put *w, const struct message_artifact *m)
{
	wire_put_u32(w, m->kind);
}

int
message_get_artifact(struct wire_get *r, struct message_artifact *m)
{
	m->kind = wire_get_u32(r);
	return wire_get_end(r);
}

void
message_put_loaded(struct wire_put *w, const struct message_loaded *m)
{
	wire_put_u64(w, m->step);
	wire_put_u64(w, m->tokens_seen);
	wire_put_string(w, m->compute);
	wire_put_u64(w, m->micro_batch);
}

int
message_get_loaded(struct wire_get *r, struct message_loaded *m)
{
	m->step = wire_get_u64(r);
	m->tokens_seen = wire_get_u64(r);
	m->compute = wire_get_string(r);
	m->micro_batch = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_train(struct wire_put *w, const struct message_train *m)
{
	wire_put_f64(w, m->learning_rate);
	wire_put_u64(w, m->step);
}

int
message_get_train(struct wire_get *r, struct message_train *m)
{
	m->learning_rate = wire_get_f64(r);
	m->step = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_trained(struct wire_put *w, const struct message_trained *m)
{
	wire_put_f64(w, m->loss);
	wire_put_f64(w, m->gradient_norm);
	wire_put_u64(w, m->input_tokens);
	wire_put_u64(w, m->supervised_tokens);
	wire_put_u64(w, m->step);
}

int
message_get_trained(struct wire_get *r, struct message_trained *m)
{
	m->loss = wire_get_f64(r);
	m->gradient_norm = wire_get_f64(r);
	m->input_tokens = wire_get_u64(r);
	m->supervised_tokens = wire_get_u64(r);
	m->step = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_saved(struct wire_put *w, const struct message_saved *m)
{
	wire_put_u64(w, m->size_bytes);
	wire_put_u64(w, m->step);
	wire_put_string(w, m->sha256);
}

int
message_get_saved(struct wire_get *r, struct message_saved *m)
{
	m->size_bytes = wire_get_u64(r);
	m->step = wire_get_u64(r);
	m->sha256 = wire_get_string(r);
	return wire_get_end(r);
}

void
message_put_verified(struct wire_put *w, const struct message_verified *m)
{
	wire_put_u64(w, m->step);
	wire_put_u64(w, m->tensors);
	wire_put_u64(w, m->elements);
}

int
message_get_verified(struct wire_get *r, struct message_verified *m)
{
	m->step = wire_get_u64(r);
	m->tensors = wire_get_u64(r);
	m->elements = wire_get_u64(r);
	return wire_get_end(r);
}

void
message_put_failed(struct wire_put *w, const struct message_failed *m)
{
	wire_put_u32(w, m->status);
	wire_put_string(w, m->detail);
}

int
message_get_failed(struct wire_get *r, struct message_failed *m)
{
	m->status = wire_get_u32(r);
	m->detail = wire_get_string(r);
	return wire_get_end(r);
}

void
message_put_last_words(struct wire_put *w, const struct message_last_words *m)
{
	wire_put_string(w, m->class);
	wire_put_string(w, m->text);
}

int
message_get_last_words(struct wire_get *r, struct message_last_words *m)
{
	m->class = wire_get_string(r);
	m->text = wire_get_string(r);
	return wire_get_end(r);
}
