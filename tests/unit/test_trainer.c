/* Steps of training: gradients against slopes, dropout, micro-batches, number formats. */
#include "tests/unit/trainer_fixture.h"
#include "worker/train/evaluate.h"

/* The loss at param, without a lasting step: dropout masks are those of step 0. */
static double
loss_at(struct fixture *f, const float *param)
{
	struct refusal r;

	trainer_set(f->t, param, NULL, NULL, &r);
	trainer_set_step_count(f->t, 0);
	return step(f, 1e-30).loss;
}

/* Each tensor's gradient against the slope of the loss along a random direction in that tensor. */
static void
check_slopes(const struct trainer_options *o)
{
	const double h = 4e-3;
	struct fixture f;
	struct refusal r;
	float *param, *moved, *grad;

	setup(&f, OP_F32, o);
	param = random_adapter(&f);
	const struct adapter *a = trainer_adapter(f.t);
	moved = malloc(a->size * sizeof(*moved));
	grad = malloc(a->size * sizeof(*grad));
	loss_at(&f, param);
	CHECK(trainer_get_gradient(f.t, grad, &r) == 0);
	for (size_t i = 0; i < a->count; i++) {
		const size_t from = a->tensors[i].offset;
		const size_t n = a->tensors[i].rows * a->tensors[i].cols;
		double product = 0, slope, norm = 0, at[2];

		for (int side = 0; side < 2; side++) {
			uint64_t random = 100 + i;

			memcpy(moved, param, a->size * sizeof(*moved));
			product = norm = 0;
			for (size_t j = from; j < from + n; j++) {
				const double u = tiny_uniform(&random);

				moved[j] += (float)((side == 0 ? h : -h) * u);
				product += u * grad[j];
				norm += (double)grad[j] * grad[j];
			}
			at[side] = loss_at(&f, moved);
		}
		slope = (at[0] - at[1]) / (2 * h);
		/* the product's own size is about the gradient's norm / sqrt(3) */
		CHECK_MSG(fabs(product - slope) < 2e-3 * sqrt(norm) + 2e-6, "%s: %g, slope %g",
		    a->tensors[i].key, product, slope);
		CHECK(norm > 0);
	}
	free(param);
	free(moved);
	free(grad);
	teardown(&f);
}

TEST(gradient_is_the_slope)
{
	check_slopes(&plain);
}

TEST(gradient_is_the_slope_with_dropout)
{
	struct trainer_options o = plain;

	o.dropout = 0.3;
	check_slopes(&o);
}

TEST(gradient_is_the_slope_of_named_targets)
{
	struct trainer_options o = plain;

	o.target_modules = "layers.1.self_attn.k_proj,layers.1.mlp.gate_proj";
	check_slopes(&o);
}

/* Each step has its own masks, and the same step the same again. */
TEST(dropout_masks_are_the_steps_own)
{
	struct trainer_options o = plain;
	struct refusal r;
	struct fixture f;
	double loss[3];
	float *param;

	o.dropout = 0.5;
	setup(&f, OP_F32, &o);
	param = random_adapter(&f);
	for (uint64_t i = 0; i < 3; i++) {
		trainer_set(f.t, param, NULL, NULL, &r);
		trainer_set_step_count(f.t, i % 2);
		loss[i] = step(&f, 1e-30).loss;
	}
	CHECK(loss[0] == loss[2] && fabs(loss[0] - loss[1]) > 1e-4);
	free(param);
	teardown(&f);
}

/* One datum at a time or all at once: the same loss and gradient, up to the order of sums. */
static void
check_split(enum op_dtype compute, double dropout, double limit)
{
	struct trainer_options o = plain;
	struct trainer_result whole, split;
	struct refusal r;
	struct fixture f;
	float *param, *grad[2];
	size_t n;

	o.dropout = dropout;
	setup(&f, compute, &o);
	param = random_adapter(&f);
	n = trainer_adapter(f.t)->size;
	grad[0] = malloc(n * sizeof(float));
	grad[1] = malloc(n * sizeof(float));
	whole = step(&f, 1e-3);
	CHECK(trainer_get_gradient(f.t, grad[0], &r) == 0);
	trainer_free(f.t);
	o.micro_batch = 1;
	open_trainer(&f, &o);
	trainer_set(f.t, param, NULL, NULL, &r);
	split = step(&f, 1e-3);
	CHECK(trainer_get_gradient(f.t, grad[1], &r) == 0);
	CHECK_MSG(fabs(whole.loss - split.loss) < limit * whole.loss, "%.9g %.9g", whole.loss,
	    split.loss);
	CHECK_MSG(distance(grad[1], grad[0], n) < limit, "%g", distance(grad[1], grad[0], n));
	CHECK(whole.input_tokens == 7 + 19 + 1 + 12 && split.input_tokens == whole.input_tokens);
	CHECK(whole.supervised_tokens == 3 + 19 + 1 + 3);
	CHECK(split.supervised_tokens == whole.supervised_tokens);
	free(param);
	free(grad[0]);
	free(grad[1]);
	teardown(&f);
}

TEST(split_into_micro_batches)
{
	check_split(OP_F32, 0, 2e-6);
	check_split(OP_F32, 0.4, 2e-6);
	check_split(OP_BF16, 0, 2e-2);
}

/* bfloat16 operands: near float32, finite, and it learns. */
TEST(bfloat16)
{
	double f32[DATUMS], bf16[DATUMS], first, last = 0;
	struct trainer_evaluation e;
	struct refusal r;
	struct fixture f;

	setup(&f, OP_F32, &plain);
	free(random_adapter(&f));
	CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, f32, NULL, &e, &r) == 0);
	teardown(&f);
	setup(&f, OP_BF16, &plain);
	free(random_adapter(&f));
	CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, bf16, NULL, &e, &r) == 0);
	for (size_t i = 0; i < DATUMS; i++)
		CHECK_MSG(fabs(bf16[i] - f32[i]) <= 0.02 * fabs(f32[i]), "%g %g", bf16[i], f32[i]);
	first = step(&f, 1e-2).loss;
	for (int i = 0; i < 20; i++)
		last = step(&f, 1e-2).loss;
	CHECK_MSG(last < first - 1, "%g %g", first, last);
	teardown(&f);
}

/* Of one step, of all datums or of a single token that predicts the next one. */
static float *
gradients(const struct tiny_model *m, enum op_dtype compute, bool single, size_t *n, double *loss)
{
	struct trainer_result result = {0};
	struct refusal r = {0};
	struct fixture f;
	float *grad;

	setup_model(&f, m, compute, &plain);
	free(random_adapter(&f));
	if (single) {
		f.datums[0].length = 2;
		f.datums[0].supervised_count = 1;
		f.supervised[0][1] = 1;
	}
	*n = trainer_adapter(f.t)->size;
	grad = malloc(*n * sizeof(*grad));
	CHECK_MSG(
	    trainer_step(f.t, f.list, single ? 1 : DATUMS, 1e-3, &result, &r) == 0, "%s", r.text);
	CHECK(trainer_get_gradient(f.t, grad, &r) == 0);
	*loss = result.loss;
	teardown(&f);
	return grad;
}

/* Widths of heads that have kernels of their own somewhere, with heads that share keys, in rows
   that are whole vectors and not. */
TEST(bfloat16_gradients_of_every_width_of_head)
{
	static const size_t dims[] = {6, 64, 80, 96, 128, 256};

	for (size_t i = 0; i < 4 * sizeof(dims) / sizeof(*dims); i++) {
		struct tiny_model m = tiny_default;
		const bool single = i % 2 != 0;
		float *wide, *narrow;
		double loss[2], off;
		size_t n;

		m.heads = 4;
		m.head_dim = dims[i / 4];
		m.width = i / 2 % 2 == 0 ? 24 : 21;
		wide = gradients(&m, OP_F32, single, &n, &loss[0]);
		narrow = gradients(&m, OP_BF16, single, &n, &loss[1]);
		off = distance(narrow, wide, n);
		CHECK_MSG(off < 0.04 && fabs(loss[1] / loss[0] - 1) < 0.02,
		    "heads of %zu, width %zu: loss %g, not %g; gradients off by %g", m.head_dim,
		    m.width, loss[1], loss[0], off);
		free(wide);
		free(narrow);
	}
}

TEST_MAIN(TEST_CASE(gradient_is_the_slope), TEST_CASE(gradient_is_the_slope_with_dropout),
    TEST_CASE(gradient_is_the_slope_of_named_targets), TEST_CASE(dropout_masks_are_the_steps_own),
    TEST_CASE(split_into_micro_batches), TEST_CASE(bfloat16),
    TEST_CASE(bfloat16_gradients_of_every_width_of_head))
