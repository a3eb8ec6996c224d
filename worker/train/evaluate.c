#include "worker/train/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/model/forward.h"
#include "worker/train/request.h"

/* Rows of logits that exist on the device at once. */
enum { LOGIT_ROWS = 16 };

/* One pass over all datums, as far as it has come. */
struct evaluation {
	struct request request;
	bool adapter;
	double sum;   /* of -log p so far */
	double *sums; /* (request.count) */
	double *logp; /* where the next rows' go, or NULL */
};

static int
refuse_datum(const struct trainer *t, const struct evaluation *e, const struct pass *p, size_t i,
    struct refusal *r)
{
	char what[160];

	snprintf(what, sizeof(what), "the loss of datum %s%s", e->request.datums[i]->id,
	    e->adapter ? "" : " without the adapter");
	return request_refuse(t, p, what, -e->sums[i], r);
}

/* The micro-batch in the workspace, of datums first .. first+count-1. */
static int
score_batch(struct trainer *t, struct evaluation *e, size_t first, size_t count, struct refusal *r)
{
	const struct pass p = trainer_pass(t, e->adapter);
	const size_t before = t->work.rows;
	const double *next = t->work.logp + before;
	enum op_status status;

	t->work.acts.dhead = NULL; /* the head's gradient is not wanted */
	if (t->work.batch.row_count != 0 && request_forward(t, &p, r) != 0)
		return -1;
	status = op_sync(t->ops);
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	request_add(t, before, &e->sum);
	for (size_t i = first; i < first + count; i++) {
		size_t rows = batch_datum_rows(e->request.datums[i]);

		e->sums[i] = 0;
		for (size_t n = 0; n < rows; n++)
			e->sums[i] += next[n];
		if (!isfinite(e->sums[i]))
			return refuse_datum(t, e, &p, i, r);
		if (e->logp != NULL)
			memcpy(e->logp, next, rows * sizeof(*next));
		e->logp = e->logp == NULL ? NULL : e->logp + rows;
		next += rows;
	}
	return 0;
}

int
trainer_evaluate(struct trainer *t, const struct datum *const *datums, size_t count, bool adapter,
    double *sums, double *logp, struct trainer_evaluation *out, struct refusal *r)
{
	struct evaluation e = {.request = {.datums = datums, .count = count},
	    .adapter = adapter,
	    .sums = sums,
	    .logp = logp};
	size_t taken;

	if (request_count(&e.request, t, r) != 0)
		return -1;
	for (size_t i = 0; i < count; i += taken)
		if (request_take(t, &e.request, i, 0, false, &taken, r) != 0 ||
		    score_batch(t, &e, i, taken, r) != 0)
			return -1;
	*out = (struct trainer_evaluation){.loss = e.sum / (double)e.request.rows,
	    .input_tokens = e.request.input_tokens,
	    .supervised_tokens = e.request.supervised_tokens};
	return 0;
}

/* Logits of rows first .. first+count-1 of the sequence whose layers were run. */
static enum op_status
look(struct trainer *t, const struct pass *p, size_t first, size_t count, float *out)
{
	struct workspace *w = &t->work;

	w->batch.row_count = 0;
	for (size_t i = 0; i < count; i++)
		batch_add_row(&w->batch, first + i, 0, 0);
	OP_TRY(batch_upload(&w->batch, t->ops, &w->acts, &w->on_device));
	OP_TRY(forward_logits(p));
	return op_download(
	    t->ops, out, w->acts.logits, count * t->model->config->vocabulary * sizeof(*out));
}

int
trainer_logits(struct trainer *t, const int32_t *ids, size_t count, bool adapter, float *out,
    struct refusal *r)
{
	const size_t vocabulary = t->model->config->vocabulary;
	struct activations_shape shape = trainer_shape(t, adapter);
	const struct pass p = trainer_pass(t, adapter);
	enum op_status status;

	shape.tokens = count;
	shape.logits = LOGIT_ROWS;
	if (trainer_check_tokens(t, ids, count, r) != 0 ||
	    workspace_fit(&t->work, &shape, 1, r) != 0)
		return -1;
	batch_add_tokens(&t->work.batch, ids, count, 0);
	if (workspace_upload(&t->work, r) != 0)
		return -1;
	status = forward_layers(&p);
	for (size_t first = 0, n; status == OP_OK && first < count; first += n) {
		n = count - first < LOGIT_ROWS ? count - first : LOGIT_ROWS;
		status = look(t, &p, first, n, out + first * vocabulary);
	}
	return status == OP_OK ? 0 : model_refuse_op(r, t->ops, status);
}
