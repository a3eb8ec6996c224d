#include "worker/train/step.h"

#include <float.h>
#include <math.h>

#include "kernels/philox.h"
#include "worker/train/request.h"

/* Tells the dropout masks of a session from its adapter's first values. */
static const uint64_t dropout_stream = 0x64726f706f757421u; /* "dropout!" */

/* The step as a whole. */
struct step {
	struct request request;
	float coefficient; /* of each row: 1 / rows */
	uint64_t seed;	   /* of this step's dropout masks */
	uint64_t tokens;   /* packed in the micro-batches so far */
	double sum;	   /* of -log p */
};

static int
check_request(struct step *s, struct trainer *t, double learning_rate, struct refusal *r)
{
	if (!(learning_rate > 0 && learning_rate <= FLT_MAX))
		return refuse(
		    r, 422, "learning_rate: %g is not a positive number of float32", learning_rate);
	if (request_count(&s->request, t, r) != 0)
		return -1;
	s->coefficient = (float)(1 / (double)s->request.rows);
	return 0;
}

/* The seed of one step's masks, from the session's. */
static uint64_t
step_seed(const struct trainer *t)
{
	uint32_t word[4];

	philox(word, t->options.seed, dropout_stream, t->step);
	return (uint64_t)word[1] << 32 | word[0];
}

/* The pass of the micro-batch in the workspace. */
static struct pass
pass_of(const struct trainer *t, const struct step *s)
{
	struct pass p = trainer_pass(t, true);

	p.dropout = (float)t->options.dropout;
	p.dropout_seed = s->seed;
	p.first_token = s->tokens;
	return p;
}

/* Forward, loss and backward of the micro-batch in the workspace. */
static int
run_batch(struct trainer *t, struct step *s, struct refusal *r)
{
	const struct pass p = pass_of(t, s);

	if (request_backward(t, &p, r) != 0)
		return -1;
	s->tokens += t->work.batch.tokens;
	return 0;
}

/* All micro-batches: afterwards, when the device has done it, grad is the gradient of the request's
   mean loss. */
static int
run_request(struct trainer *t, struct step *s, struct refusal *r)
{
	enum op_status status = op_zero(t->ops, t->grad, t->adapter.size * sizeof(float));
	size_t taken;

	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	for (size_t i = 0; i < s->request.count; i += taken) {
		if (request_take(
			t, &s->request, i, s->coefficient, t->options.dropout != 0, &taken, r) != 0)
			return -1;
		if (t->work.batch.row_count != 0 && run_batch(t, s, r) != 0)
			return -1;
	}
	return 0;
}

/* The loss is not finite: runs the passes again, up to the first micro-batch at fault, and refuses
   what is wrong there. */
static int
refuse_loss(struct trainer *t, struct step *s, struct refusal *r)
{
	double sum = 0;
	size_t taken;

	s->tokens = 0;
	t->work.rows = 0;
	for (size_t i = 0; i < s->request.count; i += taken) {
		const size_t before = t->work.rows;
		enum op_status status;
		struct pass p;

		if (request_take(
			t, &s->request, i, s->coefficient, t->options.dropout != 0, &taken, r) != 0)
			return -1;
		if (t->work.batch.row_count == 0)
			continue;
		p = pass_of(t, s);
		if (request_forward(t, &p, r) != 0)
			return -1;
		status = op_sync(t->ops);
		if (status != OP_OK)
			return model_refuse_op(r, t->ops, status);
		request_add(t, before, &sum);
		if (!isfinite(sum))
			return request_refuse(t, &p, "the loss", sum, r);
		s->tokens += t->work.batch.tokens;
	}
	return refuse(
	    r, 503, "the loss is not finite (%g), and was when it was computed again", s->sum);
}

/* Waits for the device, then knows the loss and the norm of the gradients. Refuses a loss that is
   not finite, then such a norm, and names the first tensor at fault. */
static int
measure(struct trainer *t, struct step *s, double *norm, struct refusal *r)
{
	double squares;
	size_t at;
	enum op_status status = op_sum_squares(t->ops, &squares, t->grad, t->adapter.size);

	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	request_add(t, 0, &s->sum);
	if (!isfinite(s->sum))
		return refuse_loss(t, s, r);
	*norm = sqrt(squares);
	if (isfinite(*norm))
		return 0;
	status = op_first_nonfinite(t->ops, &at, t->grad, t->adapter.size);
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	return refuse(r, 422,
	    "the gradient norm is not finite (%g): the gradient of %s is not finite", *norm,
	    adapter_at(&t->adapter, at < t->adapter.size ? at : 0)->key);
}

static int
update(struct trainer *t, double learning_rate, double norm, struct refusal *r)
{
	const struct trainer_options *o = &t->options;
	struct op_adamw settings = {
	    .learning_rate = learning_rate,
	    .beta1 = o->beta1,
	    .beta2 = o->beta2,
	    .epsilon = o->epsilon,
	    .weight_decay = o->weight_decay,
	    .gradient_scale = 1,
	    .step = t->step + 1,
	};
	enum op_status status;

	if (o->max_grad_norm > 0 && o->max_grad_norm < norm + 1e-6)
		settings.gradient_scale = o->max_grad_norm / (norm + 1e-6);
	status = op_adamw(
	    t->ops, t->param, t->exp_avg, t->exp_avg_sq, t->grad, &settings, t->adapter.size);
	if (status == OP_OK)
		status = op_sync(t->ops); /* what failed on the device was no step */
	if (status != OP_OK)
		return model_refuse_op(r, t->ops, status);
	t->step++;
	return 0;
}

int
trainer_step(struct trainer *t, const struct datum *const *datums, size_t count,
    double learning_rate, struct trainer_result *out, struct refusal *r)
{
	struct step s = {.request = {.datums = datums, .count = count}, .seed = step_seed(t)};
	struct trainer_result result = {0};

	if (check_request(&s, t, learning_rate, r) != 0 || run_request(t, &s, r) != 0 ||
	    measure(t, &s, &result.gradient_norm, r) != 0 ||
	    update(t, learning_rate, result.gradient_norm, r) != 0)
		return -1;
	result.loss = s.sum / (double)s.request.rows;
	result.input_tokens = s.request.input_tokens;
	result.supervised_tokens = s.request.supervised_tokens;
	result.step = t->step;
	*out = result;
	return 0;
}
