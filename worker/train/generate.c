#include "worker/train/generate.h"

#include <stdlib.h>

#include "worker/model/forward.h"

/* One text on its way. */
struct text {
	struct trainer *trainer;
	bool adapter;
	size_t length; /* tokens whose keys and values lie in the cache */
	float *logits; /* (V), host */
};

static size_t
largest(const float *x, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/* Runs the next tokens of the text and leaves the logits after the last one. Several tokens only
   while the cache is empty. */
static enum op_status
advance(struct text *x, const int32_t *ids, size_t count)
{
	struct workspace *w = &x->trainer->work;
	struct pass p = trainer_pass(x->trainer, x->adapter);

	p.past = x->length;
	w->batch.tokens = w->batch.row_count = w->batch.sequences = 0;
	batch_add_tokens(&w->batch, ids, count, x->length);
	batch_add_row(&w->batch, count - 1, 0, 0);
	OP_TRY(batch_upload(&w->batch, x->trainer->ops, &w->acts, &w->on_device));
	OP_TRY(forward_layers(&p));
	OP_TRY(forward_logits(&p));
	x->length += count;
	return op_download(x->trainer->ops, x->logits, w->acts.logits,
	    x->trainer->model->config->vocabulary * sizeof(*x->logits));
}

static bool
stops(const struct generate_options *o, int32_t id)
{
	for (size_t i = 0; i < o->stop_count; i++)
		if (o->stop[i] == id)
			return true;
	return false;
}

static enum op_status
continue_text(struct text *x, const int32_t *ids, size_t count, const struct generate_options *o,
    int32_t *out, size_t *out_count)
{
	OP_TRY(advance(x, ids, count));
	while (*out_count < o->maximum) {
		const int32_t id =
		    (int32_t)largest(x->logits, x->trainer->model->config->vocabulary);

		out[(*out_count)++] = id;
		if (stops(o, id) || *out_count == o->maximum)
			break;
		OP_TRY(advance(x, &id, 1));
	}
	return OP_OK;
}

/* Refuses a text that is longer than the model was made for. */
static int
check_length(const struct trainer *t, size_t count, size_t maximum, struct refusal *r)
{
	const size_t positions = t->model->config->positions;

	if (count == 0)
		return refuse(r, 422, "there is no token to continue");
	if (positions != 0 && (count > positions || maximum > positions - count))
		return refuse(r, 422,
		    "%zu tokens and %zu new ones exceed the model's %zu positions", count, maximum,
		    positions);
	return 0;
}

int
trainer_generate(struct trainer *t, const int32_t *ids, size_t count,
    const struct generate_options *options, int32_t *out, size_t *out_count, struct refusal *r)
{
	struct activations_shape shape = trainer_shape(t, options->adapter);
	struct text text = {.trainer = t, .adapter = options->adapter};
	enum op_status status;

	*out_count = 0;
	if (check_length(t, count, options->maximum, r) != 0 ||
	    trainer_check_tokens(t, ids, count, r) != 0)
		return -1;
	if (options->maximum == 0)
		return 0;
	shape.tokens = count;
	shape.logits = 1;
	shape.cache = count + options->maximum;
	if (workspace_fit(&t->work, &shape, 1, r) != 0)
		return -1;
	text.logits = malloc(t->model->config->vocabulary * sizeof(*text.logits));
	if (text.logits == NULL)
		return refuse(r, 507, "no memory for the logits");
	status = continue_text(&text, ids, count, options, out, out_count);
	free(text.logits);
	return status == OP_OK ? 0 : model_refuse_op(r, t->ops, status);
}
