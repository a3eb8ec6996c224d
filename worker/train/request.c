#include "worker/train/request.h"

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

int
request_forward(struct trainer *t, const struct pass *p, struct refusal *r)
{
	struct workspace *w = &t->work;
	enum op_status status = forward_layers(p);

	if (status == OP_OK)
		status = forward_loss(p);
	if (status == OP_OK)
		status = op_fetch(t->ops, w->logp + w->rows, w->acts.logp,
		    w->batch.row_count * sizeof(*w->logp));
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	w->rows += w->batch.row_count;
	return 0;
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
