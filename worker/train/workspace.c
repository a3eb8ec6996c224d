#include "worker/train/workspace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int
workspace_init(struct workspace *w, const struct model *model, size_t pass_most, struct refusal *r)
{
	memset(w, 0, sizeof(*w));
	w->model = model;
	w->backend = memory_backend_of(model->ops);
	w->pass_most = pass_most;
	w->acts.layers = calloc(model->config->layer_count + 1, sizeof(*w->acts.layers));
	return w->acts.layers == NULL ? refuse(r, 507, "no memory for a session") : 0;
}

void
workspace_fini(struct workspace *w)
{
	if (w->memory != NULL)
		op_free(w->model->ops, w->memory);
	free(w->acts.layers);
	batch_fini(&w->batch);
	memset(w, 0, sizeof(*w));
}

size_t
workspace_need(struct workspace *w, const struct activations_shape *shape)
{
	return activations_cut(&w->acts, w->model->config, shape, NULL);
}

int
workspace_fit(
    struct workspace *w, const struct activations_shape *shape, size_t sequences, struct refusal *r)
{
	const size_t need = workspace_need(w, shape);
	enum op_status status;

	if (need == SIZE_MAX)
		return refuse(r, 507, "a micro-batch of %zu tokens is too large", shape->tokens);
	if (need > w->size) {
		if (w->memory != NULL)
			op_free(w->model->ops, w->memory);
		w->memory = NULL;
		w->size = 0;
		status = op_alloc(w->model->ops, &w->memory, need);
		if (status != OP_OK)
			return model_refuse_op(r, w->model->ops, status);
		w->size = need;
	}
	activations_cut(&w->acts, w->model->config, shape, w->memory);
	return batch_begin(&w->batch, shape->tokens,
	    shape->rows > shape->logits ? shape->rows : shape->logits, sequences, r);
}

static bool
is_too_much(struct workspace *w, const struct activations_shape *shape)
{
	return memory_pass(&w->acts, &w->backend, w->model->config, shape) > w->pass_most;
}

/* Recomputes the layers where they cannot all be kept, then takes fewer datums: in this order, so
   that the split, and by it the gradient's bits, depends on the memory only where it has to. */
static size_t
shrink(struct workspace *w, struct activations_shape *shape, const struct datum *const *datums,
    size_t n)
{
	if (w->pass_most == SIZE_MAX || !is_too_much(w, shape))
		return n;
	shape->recompute = shape->backward;
	for (; n > 1 && is_too_much(w, shape); n--) {
		shape->tokens -= batch_datum_tokens(datums[n - 1]);
		shape->rows -= batch_datum_rows(datums[n - 1]);
	}
	return n;
}

int
workspace_take(struct workspace *w, struct activations_shape shape, size_t bound,
    const struct datum *const *datums, size_t count, float coefficient, size_t *taken,
    struct refusal *r)
{
	struct activations_shape grown = shape;
	size_t n = 0;

	shape.tokens = shape.rows = grown.tokens = grown.rows = 0;
	for (; n < count; n++) {
		grown.tokens += batch_datum_tokens(datums[n]);
		grown.rows += batch_datum_rows(datums[n]);
		if (n > 0 && workspace_need(w, &grown) > bound)
			break;
		shape.tokens = grown.tokens;
		shape.rows = grown.rows;
	}
	n = shrink(w, &shape, datums, n);
	*taken = n;
	if (workspace_fit(w, &shape, n, r) != 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		batch_add(&w->batch, datums[i], coefficient);
	return workspace_upload(w, r);
}

int
workspace_upload(struct workspace *w, struct refusal *r)
{
	enum op_status status;

	if (w->batch.tokens == 0)
		return 0;
	status = batch_upload(&w->batch, w->model->ops, &w->acts, &w->on_device);
	return status == OP_OK ? 0 : model_refuse_op(r, w->model->ops, status);
}
