#include "worker/train/request.h"

#include "kernels/repeat.h"
#include "worker/model/backward.h"
#include "worker/model/forward.h"

int
request_count(struct request *q, struct trainer *t, struct refusal *r)
{
	q->rows = 0;
	q->input_tokens = q->supervised_tokens = 0;
	for (size_t i = 0; i < q->count; i++) {
		const struct datum *d = q->datums[i];

		if (trainer_check_tokens(t, d->ids, d->length, r) != 0)
			return -1;
		q->rows += batch_datum_rows(d);
		q->input_tokens += d->length;
		q->supervised_tokens += d->supervised_count;
	}
	if (q->rows == 0)
		return refuse(r, 422, "no supervised token of the batch has a token before it");
	return workspace_begin(&t->work, q->rows, r);
}

int
request_take(struct trainer *t, const struct request *q, size_t first, float coefficient,
    bool dropout, size_t *taken, struct refusal *r)
{
	struct activations_shape shape = trainer_shape(t, true);

	shape.backward = true;
	shape.dropout = dropout;
	return workspace_take(&t->work, shape, t->options.micro_batch, q->datums + first,
	    q->count - first, coefficient, taken, r);
}

static enum op_status
forward(const void *pass)
{
	OP_TRY(forward_layers(pass));
	return forward_loss(pass);
}

static enum op_status
forward_backward(const void *pass)
{
	OP_TRY(forward(pass));
	return backward_layers(pass);
}

/* Ops over the pass are called with what follows from these; the workspace's activations are cut
   from one address by their shape. Dropout is not among them: each pass has another seed. */
static enum op_status
run(const struct pass *p, bool backward)
{
	const struct activations *a = p->acts;
	const uint64_t key[] = {
	    backward,
	    (uintptr_t)p->model,
	    (uintptr_t)p->lora,
	    p->batch->packing.tokens,
	    p->batch->row_count,
	    (uintptr_t)a->ids,
	    (uintptr_t)a->dhead,
	    a->shape.tokens,
	    a->shape.rows,
	    a->shape.logits,
	    a->shape.cache,
	    a->shape.rank,
	    a->shape.backward,
	    a->shape.recompute,
	    a->shape.dropout,
	    a->shape.act,
	};
	repeat_work *work = backward ? forward_backward : forward;

	if (p->dropout != 0)
		return work(p);
	return repeat_run(
	    p->model->ops, key, sizeof(key) / sizeof(*key), &p->batch->packing, work, p);
}

static int
run_and_fetch(struct trainer *t, const struct pass *p, bool backward, struct refusal *r)
{
	struct workspace *w = &t->work;
	enum op_status status = run(p, backward);

	if (status == OP_OK)
		status = op_fetch(
		    t->ops, w->logp + w->rows, w->acts.logp, w->batch.row_count * sizeof(*w->logp));
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	w->rows += w->batch.row_count;
	return 0;
}

int
request_forward(struct trainer *t, const struct pass *p, struct refusal *r)
{
	return run_and_fetch(t, p, false, r);
}

int
request_backward(struct trainer *t, const struct pass *p, struct refusal *r)
{
	return run_and_fetch(t, p, true, r);
}

void
request_add(const struct trainer *t, size_t first, double *sum)
{
	for (size_t i = first; i < t->work.rows; i++)
		*sum -= t->work.logp[i];
}

int
request_refuse(const struct trainer *t, const struct pass *p, const char *what, double value,
    struct refusal *r)
{
	char name[256];
	size_t at = t->adapter.size;
	enum op_status status = OP_OK;

	if (p->lora != NULL)
		status = op_first_nonfinite(t->ops, &at, t->param, t->adapter.size);
	if (status == OP_OK && at < t->adapter.size)
		return refuse(r, 422, "%s is not finite (%g): %s is not finite", what, value,
		    adapter_at(&t->adapter, at)->key);
	if (status == OP_OK)
		status = forward_blame(p, name, sizeof(name));
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	return refuse(r, 422, "%s is not finite (%g): first not finite: %s", what, value, name);
}
