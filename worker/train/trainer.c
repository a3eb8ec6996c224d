#include "worker/train/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/device.h"
#include "kernels/repeat.h"

static int
check_options(const struct trainer_options *o, struct refusal *r)
{
	if (!(o->dropout >= 0 && o->dropout < 1))
		return refuse(r, 422, "lora_dropout: %g is not in 0 <= dropout < 1", o->dropout);
	if (!(isfinite(o->alpha) && o->alpha >= 0))
		return refuse(r, 422, "lora_alpha: %g is not a positive number", o->alpha);
	if (!(o->beta1 >= 0 && o->beta1 < 1))
		return refuse(r, 422, "beta1: %g is not in 0 <= beta1 < 1", o->beta1);
	if (!(o->beta2 >= 0 && o->beta2 < 1))
		return refuse(r, 422, "beta2: %g is not in 0 <= beta2 < 1", o->beta2);
	if (!(isfinite(o->epsilon) && o->epsilon >= 0))
		return refuse(r, 422, "epsilon: %g is not a number >= 0", o->epsilon);
	if (!(isfinite(o->weight_decay) && o->weight_decay >= 0))
		return refuse(r, 422, "weight_decay: %g is not a number >= 0", o->weight_decay);
	if (!(isfinite(o->max_grad_norm) && o->max_grad_norm >= 0))
		return refuse(r, 422, "max_grad_norm: %g is not a number >= 0", o->max_grad_norm);
	return 0;
}

/* Points the pairs at their places in the flat buffers. */
static void
bind_lora(struct trainer *t)
{
	const struct adapter *a = &t->adapter;
	const size_t count = t->model->config->layer_count * LINEAR_COUNT;

	for (size_t i = 0; i < count; i++) {
		const struct adapter_pair *pair = &a->pairs[i];

		if (pair->a == ADAPTER_NONE)
			continue;
		t->lora[i] = (struct pass_lora){
		    .lora = {.a = t->param + a->tensors[pair->a].offset,
			.b = t->param + a->tensors[pair->b].offset,
			.rank = a->rank,
			.scale = (float)(a->alpha / (double)a->rank)},
		    .da = t->grad + a->tensors[pair->a].offset,
		    .db = t->grad + a->tensors[pair->b].offset,
		};
	}
}

static int
alloc_buffers(struct trainer *t, struct refusal *r)
{
	float **const buffers[] = {&t->param, &t->grad, &t->exp_avg, &t->exp_avg_sq};
	const size_t bytes = t->adapter.size * sizeof(float);

	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
		void *memory = NULL;
		const enum op_status status = op_alloc(t->ops, &memory, bytes);

		if (status != OP_OK)
			return model_refuse_op(r, t->ops, status);
		*buffers[i] = memory;
	}
	t->lora = calloc(t->model->config->layer_count * LINEAR_COUNT, sizeof(*t->lora));
	if (t->lora == NULL)
		return refuse(r, 507, "no memory for the adapter");
	bind_lora(t);
	return 0;
}

/* What a driver still takes of a device's memory once a session is open: kernels that are loaded
   when they are first launched, their local memory. */
enum { MARGIN_PART = 32, MARGIN_MOST = 512 << 20 };

/* The bytes there are for a session: on the CPU what its process may take (0 = not known, no
   limit), else what the device has free. */
static enum op_status
find_limit(const struct trainer *t, struct memory_request *q)
{
	struct device_info device;
	enum op_status status;

	q->limit = q->backend.cuda ? t->options.device_limit : t->options.memory_limit;
	if (!q->backend.cuda || q->limit != 0)
		return OP_OK;
	status = device_describe(&device, 0);
	if (status != OP_OK)
		return status;
	q->margin = device.memory / MARGIN_PART;
	if (q->margin > MARGIN_MOST)
		q->margin = MARGIN_MOST;
	if (q->margin > device.memory_free)
		q->margin = device.memory_free;
	q->limit = device.memory_free - q->margin;
	return OP_OK;
}

static int
plan_memory(struct trainer *t, const struct model_config *config, struct refusal *r)
{
	struct memory_request request = {
	    .config = config,
	    .backend = memory_backend_of(t->ops),
	    .compute = op_compute(t->ops),
	    .rank = t->adapter.rank,
	    .adapter = t->adapter.size,
	    .dropout = t->options.dropout != 0,
	    .tokens = t->options.datum_tokens,
	    .micro_batch = t->options.micro_batch,
	};
	enum op_status status;

	status = find_limit(t, &request);
	if (status != OP_OK)
		return model_refuse_op(r, NULL, status);
	if (memory_plan_make(&t->plan, &request, r) != 0)
		return -1;
	t->options.micro_batch = t->plan.micro_batch;
	return 0;
}

static int
start_adapter(struct trainer *t, struct refusal *r)
{
	float *param = malloc(t->adapter.size * sizeof(*param));
	int result;

	if (param == NULL)
		return refuse(r, 507, "no memory for the adapter");
	adapter_start(&t->adapter, t->options.seed, param);
	result = trainer_set(t, param, NULL, NULL, r);
	free(param);
	return result;
}

static int
open_trainer(struct trainer *t, const struct model_files *files, struct refusal *r)
{
	const struct trainer_options *o = &t->options;
	const char *targets = o->target_modules != NULL ? o->target_modules : "all-linear";

	if (check_options(o, r) != 0 || adapter_init(&t->adapter, model_files_config(files),
					    o->rank, o->alpha, targets, r) != 0)
		return -1;
	t->options.alpha = t->adapter.alpha;
	t->options.target_modules = NULL;
	if (plan_memory(t, model_files_config(files), r) != 0 ||
	    model_load(&t->model, t->ops, files, r) != 0 || alloc_buffers(t, r) != 0 ||
	    workspace_init(&t->work, t->model, &t->plan, r) != 0)
		return -1;
	repeat_allow(t->ops, o->graphs ? t->plan.graphs : 0);
	return start_adapter(t, r);
}

int
trainer_open(struct trainer **out, struct op_context *ops, const struct model_files *files,
    const struct trainer_options *options, struct refusal *r)
{
	struct trainer *t = calloc(1, sizeof(*t));

	*out = NULL;
	if (t == NULL)
		return refuse(r, 507, "no memory for a session");
	t->ops = ops;
	t->options = *options;
	if (open_trainer(t, files, r) != 0) {
		trainer_free(t);
		return -1;
	}
	*out = t;
	return 0;
}

void
trainer_free(struct trainer *t)
{
	if (t == NULL)
		return;
	workspace_fini(&t->work);
	float *const buffers[] = {t->param, t->grad, t->exp_avg, t->exp_avg_sq};
	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
		if (buffers[i] != NULL)
			op_free(t->ops, buffers[i]);
	free(t->lora);
	adapter_fini(&t->adapter);
	model_free(t->model);
	free(t);
}

const struct adapter *
trainer_adapter(const struct trainer *t)
{
	return &t->adapter;
}

uint64_t
trainer_step_count(const struct trainer *t)
{
	return t->step;
}

void
trainer_set_step_count(struct trainer *t, uint64_t step)
{
	t->step = step;
}

/* The first failure of several copies; the device is at fault then. */
static int
copied(const struct trainer *t, const enum op_status *status, size_t count, struct refusal *r)
{
	for (size_t i = 0; i < count; i++)
		if (status[i] != OP_OK)
			return model_refuse_op(r, t->ops, status[i]);
	return 0;
}

static enum op_status
get(const struct trainer *t, float *host, const float *device)
{
	if (host == NULL)
		return OP_OK;
	return op_download(t->ops, host, device, t->adapter.size * sizeof(*host));
}

static enum op_status
set(const struct trainer *t, float *device, const float *host)
{
	if (host == NULL)
		return OP_OK;
	return op_upload(t->ops, device, host, t->adapter.size * sizeof(*host));
}

int
trainer_get(
    const struct trainer *t, float *param, float *exp_avg, float *exp_avg_sq, struct refusal *r)
{
	const enum op_status status[] = {get(t, param, t->param), get(t, exp_avg, t->exp_avg),
	    get(t, exp_avg_sq, t->exp_avg_sq)};

	return copied(t, status, 3, r);
}

int
trainer_set(struct trainer *t, const float *param, const float *exp_avg, const float *exp_avg_sq,
    struct refusal *r)
{
	const enum op_status status[] = {set(t, t->param, param), set(t, t->exp_avg, exp_avg),
	    set(t, t->exp_avg_sq, exp_avg_sq), op_sync(t->ops)};

	return copied(t, status, 4, r);
}

int
trainer_get_gradient(const struct trainer *t, float *grad, struct refusal *r)
{
	const enum op_status status = get(t, grad, t->grad);

	return copied(t, &status, 1, r);
}

struct pass
trainer_pass(const struct trainer *t, bool adapter)
{
	return (struct pass){
	    .model = t->model,
	    .lora = adapter ? t->lora : NULL,
	    .batch = &t->work.on_device,
	    .acts = &t->work.acts,
	};
}

struct activations_shape
trainer_shape(const struct trainer *t, bool adapter)
{
	return (struct activations_shape){
	    .rank = adapter ? t->adapter.rank : 0,
	    .act = op_compute(t->ops),
	};
}

int
trainer_check_tokens(const struct trainer *t, const int32_t *ids, size_t count, struct refusal *r)
{
	const size_t vocabulary = t->model->config->vocabulary;

	for (size_t i = 0; i < count; i++)
		if (ids[i] < 0 || (size_t)ids[i] >= vocabulary)
			return refuse(
			    r, 422, "token %d is not one of the model's %zu", ids[i], vocabulary);
	return 0;
}
