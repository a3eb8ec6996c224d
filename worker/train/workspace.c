#include "worker/train/workspace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 65536 }; /* of a request, before there has to be more memory for their log p */

/* *size bytes at *memory, instead of fewer. The old ones go first: both need not fit. */
static int
grow(struct workspace *w, size_t bytes, struct refusal *r)
{
	enum op_status status;

	if (bytes <= w->size)
		return 0;
	if (w->memory != NULL)
		op_free(w->model->ops, w->memory);
	w->memory = NULL;
	w->size = 0;
	status = op_alloc(w->model->ops, &w->memory, bytes);
	if (status != OP_OK)
		return model_refuse_op(r, w->model->ops, status);
	w->size = bytes;
	return 0;
}

/* All that a planned pass takes on the device, so that no step has to allocate. */
static int
reserve(struct workspace *w, const struct memory_plan *plan, struct refusal *r)
{
	enum op_status status;

	status = op_reserve(w->model->ops, plan->scratch, plan->micro_batch);
	if (status != OP_OK)
		return model_refuse_op(r, w->model->ops, status);
	w->scratch = plan->scratch;
	return grow(w, plan->activations, r) == 0 ? workspace_begin(w, ROWS, r) : -1;
}

int
workspace_init(struct workspace *w, const struct model *model, const struct memory_plan *plan,
    struct refusal *r)
{
	memset(w, 0, sizeof(*w));
	w->model = model;
	w->backend = memory_backend_of(model->ops);
	w->pass_most = plan->pass;
	w->acts.layers = calloc(model->config->layer_count + 1, sizeof(*w->acts.layers));
	if (w->acts.layers == NULL)
		return refuse(r, 507, "no memory for a session");
	return w->backend.cuda ? reserve(w, plan, r) : 0;
}

void
workspace_fini(struct workspace *w)
{
	if (w->memory != NULL)
		op_free(w->model->ops, w->memory);
	if (w->logp != NULL)
		op_host_free(w->model->ops, w->logp);
	free(w->acts.layers);
	batch_fini(&w->batch);
	memset(w, 0, sizeof(*w));
}

int
workspace_begin(struct workspace *w, size_t rows, struct refusal *r)
{
	void *memory = NULL;
	enum op_status status;

	w->rows = 0;
	if (rows <= w->row_capacity)
		return 0;
	if (w->logp != NULL)
		op_host_free(w->model->ops, w->logp);
	w->logp = NULL;
	w->row_capacity = 0;
	status = op_host_alloc(w->model->ops, &memory, rows * sizeof(*w->logp));
	if (status != OP_OK)
		return model_refuse_op(r, w->model->ops, status);
	w->logp = memory;
	w->row_capacity = rows;
	return 0;
}

int
workspace_fit(
    struct workspace *w, const struct activations_shape *shape, size_t sequences, struct refusal *r)
{
	const size_t need = activations_cut(&w->acts, w->model->config, shape, NULL);

	if (need == SIZE_MAX)
		return refuse(r, 507, "a micro-batch of %zu tokens is too large", shape->tokens);
	if (grow(w, need, r) != 0)
		return -1;
	activations_cut(&w->acts, w->model->config, shape, w->memory);
	return batch_begin(&w->batch, shape->tokens,
	    shape->rows > shape->logits ? shape->rows : shape->logits, sequences, r);
}

int
workspace_take(struct workspace *w, struct activations_shape shape, size_t most,
    const struct datum *const *datums, size_t count, float coefficient, size_t *taken,
    struct refusal *r)
{
	size_t n = 0;

	for (shape.tokens = shape.rows = 0; n < count; n++) {
		const size_t tokens = batch_datum_tokens(datums[n]);

		if (n > 0 && (shape.tokens > most || tokens > most - shape.tokens))
			break;
		shape.tokens += tokens;
		shape.rows += batch_datum_rows(datums[n]);
	}
	if (w->pass_most != SIZE_MAX)
		memory_fit(
		    &w->acts, &w->backend, w->model->config, &shape, w->scratch, w->pass_most);
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
