#include "worker/train/evaluate.h"

#include "worker/model/forward.h"

/* Rows of logits that exist on the device at once. */
enum { LOGIT_ROWS = 16 };

static int
check_datums(
    const struct trainer *t, const struct datum *const *datums, size_t count, struct refusal *r)
{
	for (size_t i = 0; i < count; i++)
		if (trainer_check_tokens(t, datums[i]->ids, datums[i]->length, r) != 0)
			return -1;
	return 0;
}

/* log p of every row of the batch in the workspace, into the batch's logp. */
static int
score_batch(struct trainer *t, bool adapter, struct refusal *r)
{
	const struct pass p = trainer_pass(t, adapter);
	enum op_status status;

	if (t->work.batch.row_count == 0)
		return 0;
	status = forward_layers(&p);
	if (status == OP_OK)
		status = forward_loss(&p, t->work.batch.logp);
	return status == OP_OK ? 0 : model_refuse_op(r, t->ops, status);
}

int
trainer_evaluate(struct trainer *t, const struct datum *const *datums, size_t count, bool adapter,
    double *sums, double *logp, struct refusal *r)
{
	const struct activations_shape shape = trainer_shape(t, adapter);
	size_t taken;

	if (check_datums(t, datums, count, r) != 0)
		return -1;
	for (size_t first = 0; first < count; first += taken) {
		const double *next = t->work.batch.logp;

		if (workspace_take(&t->work, shape, t->options.activation_bytes, datums + first,
			count - first, 0, &taken, r) != 0 ||
		    score_batch(t, adapter, r) != 0)
			return -1;
		next = t->work.batch.logp;
		for (size_t i = first; i < first + taken; i++) {
			sums[i] = 0;
			for (size_t n = batch_datum_rows(datums[i]); n > 0; n--) {
				sums[i] += *next;
				if (logp != NULL)
					*logp++ = *next;
				next++;
			}
		}
	}
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
