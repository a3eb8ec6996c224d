#include "worker/model/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/load.h"

enum { ALIGNMENT = 64 };

/* The tensors of a model in the order of their memory. */
struct plan {
	struct load_tensor *tensors;
	size_t count, capacity;
	size_t bytes;
	bool failed; /* memory ran out, or a size does not fit */
};

const char *
model_linear_path(enum model_linear which)
{
#define MODEL_LINEAR_PATH(name, path) path,
	static const char *const paths[] = {MODEL_LINEAR_LIST(MODEL_LINEAR_PATH)};
#undef MODEL_LINEAR_PATH

	return paths[which];
}

void
model_linear_shape(
    const struct model_config *c, enum model_linear which, size_t *outputs, size_t *inputs)
{
	const size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
	const size_t shapes[LINEAR_COUNT][2] = {
	    [LINEAR_Q] = {q, c->width},
	    [LINEAR_K] = {kv, c->width},
	    [LINEAR_V] = {kv, c->width},
	    [LINEAR_O] = {c->width, q},
	    [LINEAR_GATE] = {c->mlp_width, c->width},
	    [LINEAR_UP] = {c->mlp_width, c->width},
	    [LINEAR_DOWN] = {c->width, c->mlp_width},
	};

	*outputs = shapes[which][0];
	*inputs = shapes[which][1];
}

int
model_module_name(
    char *out, size_t size, const struct model_config *c, size_t layer, const char *path)
{
	return snprintf(out, size, "%s.layers.%zu.%s", c->prefix, layer, path);
}

int
model_refuse_op(struct refusal *r, const struct op_context *ops, enum op_status status)
{
	const char *why = op_last_error(ops);

	switch (status) {
	case OP_NO_MEMORY:
		return refuse(r, 507, "the device has not enough memory: %s", why);
	case OP_UNSUPPORTED:
		return refuse(r, 422, "the device cannot compute this: %s", why);
	default:
		return refuse(r, 503, "the device failed: %s", why);
	}
}

static bool
linear_has_bias(const struct model_layer *layer, enum model_linear which)
{
	switch (which) {
	case LINEAR_Q:
	case LINEAR_K:
	case LINEAR_V:
		return layer->qkv_bias;
	case LINEAR_O:
		return layer->o_bias;
	default:
		return layer->mlp_bias;
	}
}

/* Appends a tensor and returns its offset. */
static size_t
plan_add(struct plan *p, const char *name, size_t rows, size_t cols, enum op_dtype dtype)
{
	size_t bytes, end;
	struct load_tensor *t;

	if (p->count == p->capacity) {
		const size_t capacity = p->capacity == 0 ? 64 : 2 * p->capacity;

		t = reallocarray(p->tensors, capacity, sizeof(*t));
		if (t == NULL) {
			p->failed = true;
			return 0;
		}
		p->tensors = t;
		p->capacity = capacity;
	}
	if (__builtin_mul_overflow(rows, cols, &bytes) ||
	    __builtin_mul_overflow(bytes, dtype == OP_F32 ? 4u : 2u, &bytes) ||
	    __builtin_add_overflow(p->bytes, bytes, &end) || end > SIZE_MAX - ALIGNMENT) {
		p->failed = true;
		return 0;
	}
	t = &p->tensors[p->count++];
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->rows = rows;
	t->cols = cols;
	t->dtype = dtype;
	t->offset = p->bytes;
	p->bytes = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return t->offset;
}

static void
plan_linear(struct plan *p, const struct model_config *c, size_t layer, enum model_linear which,
    enum op_dtype dtype)
{
	char path[LOAD_NAME_SIZE / 2], name[LOAD_NAME_SIZE];
	size_t outputs, inputs;

	model_linear_shape(c, which, &outputs, &inputs);
	snprintf(path, sizeof(path), "%s.weight", model_linear_path(which));
	model_module_name(name, sizeof(name), c, layer, path);
	plan_add(p, name, outputs, inputs, dtype);
	if (linear_has_bias(&c->layers[layer], which)) {
		snprintf(path, sizeof(path), "%s.bias", model_linear_path(which));
		model_module_name(name, sizeof(name), c, layer, path);
		plan_add(p, name, 1, outputs, OP_F32);
	}
}

/* Every tensor of the model; bind() walks them in the same order. */
static void
plan_model(struct plan *p, const struct model_config *c, enum op_dtype dtype)
{
	char name[LOAD_NAME_SIZE];

	snprintf(name, sizeof(name), "%s.embed_tokens.weight", c->prefix);
	plan_add(p, name, c->vocabulary, c->width, dtype);
	if (!c->tied_head)
		plan_add(p, "lm_head.weight", c->vocabulary, c->width, dtype);
	snprintf(name, sizeof(name), "%s.norm.weight", c->prefix);
	plan_add(p, name, 1, c->width, OP_F32);
	for (size_t l = 0; l < c->layer_count; l++) {
		model_module_name(name, sizeof(name), c, l, "input_layernorm.weight");
		plan_add(p, name, 1, c->width, OP_F32);
		model_module_name(name, sizeof(name), c, l, "post_attention_layernorm.weight");
		plan_add(p, name, 1, c->width, OP_F32);
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++)
			plan_linear(p, c, l, i, dtype);
	}
}

/* The frequencies of RoPE lie behind the last tensor. */
static size_t
plan_bytes(const struct plan *p, const struct model_config *c)
{
	return p->bytes + c->rope.half * sizeof(float);
}

size_t
model_memory(const struct model_config *c, enum op_dtype compute)
{
	struct plan plan = {0};
	size_t bytes;

	plan_model(&plan, c, compute);
	bytes = plan.failed ? SIZE_MAX : plan_bytes(&plan, c);
	free(plan.tensors);
	return bytes;
}

static struct op_matrix
bind_matrix(const struct model *m, const struct load_tensor *t)
{
	return (struct op_matrix){
	    .data = (const char *)m->memory + t->offset,
	    .rows = t->rows,
	    .cols = t->cols,
	    .dtype = t->dtype,
	};
}

static const float *
bind_vector(const struct model *m, const struct load_tensor *t)
{
	return (const float *)((const char *)m->memory + t->offset);
}

/* Points the model at its tensors, in the order of plan_model. */
static void
bind(struct model *m, const struct load_tensor *next)
{
	const struct model_config *c = m->config;

	m->embedding = bind_matrix(m, next++);
	m->head = c->tied_head ? m->embedding : bind_matrix(m, next++);
	m->norm = bind_vector(m, next++);
	for (size_t l = 0; l < c->layer_count; l++) {
		struct model_block *b = &m->blocks[l];

		b->attention_norm = bind_vector(m, next++);
		b->mlp_norm = bind_vector(m, next++);
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
			b->linear[i].w = bind_matrix(m, next++);
			if (linear_has_bias(&c->layers[l], i))
				b->linear[i].bias = bind_vector(m, next++);
		}
	}
}

/* Gets the memory and fills it. */
static int
load(struct model *m, const struct model_files *files, const struct plan *p, struct refusal *r)
{
	const struct model_config *c = m->config;
	const size_t turns = p->bytes;
	enum op_status status;

	m->blocks = calloc(c->layer_count, sizeof(*m->blocks));
	if (m->blocks == NULL)
		return refuse(r, 507, "no memory for a model of %zu layers", c->layer_count);
	status = op_alloc(m->ops, &m->memory, plan_bytes(p, c));
	if (status != OP_OK)
		return model_refuse_op(r, m->ops, status);
	bind(m, p->tensors);
	m->frequency = (const float *)((const char *)m->memory + turns);
	status = op_upload(
	    m->ops, (char *)m->memory + turns, c->rope.frequency, c->rope.half * sizeof(float));
	if (status != OP_OK)
		return model_refuse_op(r, m->ops, status);
	for (size_t i = 0; i < p->count; i++)
		m->parameters += p->tensors[i].rows * p->tensors[i].cols;
	return load_tensors(m->ops, m->memory, files, p->tensors, p->count, r);
}

int
model_load(
    struct model **out, struct op_context *ops, const struct model_files *files, struct refusal *r)
{
	struct plan plan = {0};
	struct model *m;
	int result = -1;

	*out = NULL;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return refuse(r, 507, "no memory for the model");
	m->ops = ops;
	m->config = model_files_config(files);
	plan_model(&plan, m->config, op_compute(ops));
	if (plan.failed)
		refuse(r, 507, "the model is too large for this machine");
	else
		result = load(m, files, &plan, r);
	free(plan.tensors);
	if (result != 0) {
		model_free(m);
		return -1;
	}
	*out = m;
	return 0;
}

void
model_free(struct model *m)
{
	if (m == NULL)
		return;
	if (m->memory != NULL)
		op_free(m->ops, m->memory);
	free(m->blocks);
	free(m);
}
