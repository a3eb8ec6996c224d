#include "worker/session.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "kernels/compute.h"
#include "kernels/device.h"
#include "kernels/repeat.h"
#include "worker/probe.h"
#include "worker/session_state.h"
#include "worker/train/step.h"

const char *
session_compute(const struct session *s)
{
	return op_compute(s->ops) == OP_BF16 ? "bf16" : "f32";
}

static int
no_memory(struct refusal *r)
{
	return refuse(r, 507, "out of memory while opening the session");
}

static int
copy_settings(struct session *s, const struct message_open *m, struct refusal *r)
{
	s->id = strdup(m->session_id);
	s->base_model = strdup(m->base_model);
	s->model_revision = strdup(m->model_revision);
	s->target_modules = strdup(m->target_modules);
	if (s->id == NULL || s->base_model == NULL || s->model_revision == NULL ||
	    s->target_modules == NULL)
		return no_memory(r);
	s->rank = m->lora_rank;
	s->seed = m->seed;
	s->maximum_datum_tokens = m->maximum_datum_tokens;
	s->threads = (int)m->threads;
	s->compute_auto = strcmp(m->compute, "auto") == 0;
	s->loss = NAN;
	s->options = (struct trainer_options){
	    .rank = m->lora_rank,
	    .alpha = m->lora_alpha,
	    .dropout = m->lora_dropout,
	    .target_modules = s->target_modules,
	    .seed = m->seed,
	    .weight_decay = m->weight_decay,
	    .beta1 = m->beta1,
	    .beta2 = m->beta2,
	    .epsilon = m->epsilon,
	    .max_grad_norm = m->max_grad_norm,
	    .micro_batch = m->micro_batch,
	    .datum_tokens = m->maximum_datum_tokens,
	    .memory_limit = m->memory_limit,
	    .graphs = probe_wants_graphs(),
	};
	return 0;
}

/* What the session reads and writes text with. Runs beside the loading of the weights. */
static int
open_text(struct session *s, struct refusal *r)
{
	const struct gguf *gguf = model_files_gguf(s->files);
	const char *source;
	const void *json;
	size_t len;
	int rc;

	if (gguf != NULL) {
		rc = tokenizer_open_gguf(&s->tokenizer, gguf, r);
	} else {
		json = model_files_tokenizer_json(s->files, &len);
		rc = tokenizer_open_json(&s->tokenizer, json, len, r);
	}
	if (rc != 0)
		return -1;
	source = model_files_chat_template(s->files, &len);
	if (source == NULL)
		return refuse(r, 422, "the model has no chat template");
	if (chat_template_compile(&s->template, source, len, r) != 0) {
		struct refusal why = *r;

		return refuse(r, why.status, "the model's chat template: %s", why.text);
	}
	return datum_store_new(&s->datums) == 0 ? 0 : no_memory(r);
}

struct text_thread {
	pthread_t thread;
	struct session *session;
	struct refusal refusal;
	int rc;
};

static void *
run_text_thread(void *arg)
{
	struct text_thread *t = arg;

	t->rc = open_text(t->session, &t->refusal);
	return NULL;
}

/* "auto": bfloat16 on a GPU, for every one that this runs on has units for it; of a processor, what
   it multiplies faster, measured at the model's largest layer. */
static enum op_dtype
choose_compute(const struct session *s)
{
	const struct model_config *config = model_files_config(s->files);
	struct op_options options = {.threads = s->threads};
	struct compute_speed speed;

	if (strcmp(device_backend(), "cuda") == 0)
		return OP_BF16;
	if (compute_measure(&speed, &options, 256, config->mlp_width, config->width) != OP_OK)
		return OP_F32;
	return compute_choose(&speed);
}

int
session_start(struct session *s, enum op_dtype compute, struct refusal *r)
{
	struct op_options options = {.compute = compute, .threads = s->threads};
	enum op_status status;

	trainer_free(s->trainer);
	s->trainer = NULL;
	op_close(s->ops);
	s->ops = NULL;
	status = op_open(&s->ops, &options);
	if (status == OP_NO_MEMORY)
		return model_refuse_op(r, NULL, status);
	if (status != OP_OK)
		return refuse(r, 503, "accelerator unavailable: %s", op_last_error(NULL));
	return trainer_open(&s->trainer, s->ops, s->files, &s->options, r);
}

static int
load(struct session *s, const struct message_open *m, struct refusal *r)
{
	struct text_thread text = {.session = s, .refusal = {.status = 422}};
	enum op_dtype compute;
	int rc;

	if (model_files_open(&s->files, m->model_path, r) != 0)
		return -1;
	/* Measured before there is other work. */
	if (s->compute_auto)
		compute = choose_compute(s);
	else
		compute = strcmp(m->compute, "bf16") == 0 ? OP_BF16 : OP_F32;
	if (pthread_create(&text.thread, NULL, run_text_thread, &text) != 0)
		return no_memory(r);
	rc = session_start(s, compute, r);
	pthread_join(text.thread, NULL);
	if (rc == 0 && text.rc != 0) {
		*r = text.refusal;
		rc = -1;
	}
	return rc;
}

/* The adapter's settings are checked by the trainer; a rank wider than every layer is only odd. */
static void
describe(const struct session *s, struct message_opened *out)
{
	const struct adapter *adapter = trainer_adapter(s->trainer);

	*out = (struct message_opened){.compute = session_compute(s),
	    .device = device_backend(),
	    .adapter_parameters = adapter->size,
	    .base_parameters = s->trainer->model->parameters,
	    .adapted_modules = (uint32_t)adapter->modules,
	    .micro_batch = s->trainer->options.micro_batch};
}

int
session_open(struct session **out, const struct message_open *settings,
    struct message_opened *opened, struct refusal *r)
{
	struct session *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (s == NULL)
		return no_memory(r);
	if (copy_settings(s, settings, r) != 0 || load(s, settings, r) != 0) {
		session_free(s);
		return -1;
	}
	describe(s, opened);
	*out = s;
	return 0;
}

void
session_free(struct session *s)
{
	if (s == NULL)
		return;
	trainer_free(s->trainer);
	op_close(s->ops);
	datum_store_free(s->datums);
	chat_template_free(s->template);
	tokenizer_free(s->tokenizer);
	model_files_free(s->files);
	free(s->id);
	free(s->base_model);
	free(s->model_revision);
	free(s->target_modules);
	free(s);
}

int
session_digest(const struct session *s, char hex[65], struct refusal *r)
{
	return model_files_digest(s->files, hex, r);
}

int
session_find_datums(const struct session *s, int ids, const struct datum ***datums, size_t *count,
    struct refusal *r)
{
	struct blob_view view;
	struct wire_get get;
	size_t n;
	int rc = 0;

	*datums = NULL;
	if (blob_map(&view, ids) != 0)
		return refuse(r, 500, "the worker could not read a request of its supervisor");
	wire_get_init(&get, view.data, view.len);
	n = wire_get_u32(&get);
	if (n == 0 || n > view.len / 5) /* an id takes 5 bytes at least */
		rc = refuse(r, 500, "the worker could not read a request of its supervisor");
	if (rc == 0) {
		*datums = calloc(n, sizeof(**datums));
		if (*datums == NULL)
			rc = refuse(r, 507, "out of memory for a batch of %zu datums", n);
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		(*datums)[i] = datum_store_find(s->datums, wire_get_string(&get));
		if ((*datums)[i] == NULL)
			rc = refuse(r, 422, REFUSAL_UNKNOWN_DATUM);
	}
	blob_unmap(&view);
	if (rc != 0) {
		free(*datums);
		*datums = NULL;
	}
	*count = n;
	return rc;
}

const char *
session_trouble(const struct session *s)
{
	return s->ops != NULL ? repeat_trouble(s->ops) : "";
}

int
session_train(struct session *s, const struct message_train *settings, int ids,
    struct message_trained *out, struct refusal *r)
{
	const struct datum **datums;
	struct trainer_result result;
	size_t count = 0;
	int rc;

	if (settings->step != trainer_step_count(s->trainer))
		return refuse(r, 409, "the session is at step %llu, not %llu",
		    (unsigned long long)trainer_step_count(s->trainer),
		    (unsigned long long)settings->step);
	if (session_find_datums(s, ids, &datums, &count, r) != 0)
		return -1;
	rc = trainer_step(s->trainer, datums, count, settings->learning_rate, &result, r);
	free(datums);
	if (rc != 0)
		return -1;
	s->tokens_seen += result.input_tokens;
	s->rows_consumed += count;
	s->loss = result.loss;
	*out = (struct message_trained){.loss = result.loss,
	    .gradient_norm = result.gradient_norm,
	    .input_tokens = result.input_tokens,
	    .supervised_tokens = result.supervised_tokens,
	    .step = result.step};
	return 0;
}
