#include "tests/unit/op_test.h"
#include "tests/unit/product.h"

/* The matrix in the given type; in bf16 its values are rounded in a float32 matrix too, which is
   what the products see. */
static struct op_matrix
matrix(struct rig *r, float *host, size_t rows, size_t cols, enum op_dtype type)
{
	struct op_matrix w = {.rows = rows, .cols = cols, .dtype = type};

	w.data = rig_typed(r, host, rows * cols, type);
	round_to(host, rows * cols, r->act);
	return w;
}

/* Float32 sums of up to 5003 products, of the greatest element. A CPU's library has many sums side
   by side; a GPU's may have one chain for each element, and tensor cores cut what float32 does not
   hold instead of rounding it: 2.9e-6 in the emulation, which does both. */
static const double sums = RIG_CUDA ? 8e-6 : 2e-6;

/* Tolerance: these sums, rounded operands being the same on both sides; where bf16 comes out half a
   unit, and half a unit of what CUDA rounds before it adds the bias. The logits are float32. With
   each type of W, with a bias and without, what was there before is added to or not. */
TEST(forward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 8 * SIZES; i++) {
		struct sizes s = sizes[i % SIZES];
		bool biased = i / SIZES % 2 == 1, accumulate = i >= 4 * SIZES;
		size_t n = s.tokens * s.outputs;
		float *x = random_floats(s.tokens * s.inputs, 1.0f, i);
		float *weights = random_floats(s.outputs * s.inputs, 1.0f, i + 7);
		float *bias = random_floats(s.outputs, 1.0f, 5);
		float *before = random_floats(n, 1.0f, 6), *got = malloc(n * sizeof(float));
		void *out = accumulate ? rig_act(&r, before, n) : rig_act_nan(&r, n);
		double *want = malloc(n * sizeof(double));
		double rounded = 0.0, last = 1e-30;
		struct op_matrix w =
		    matrix(&r, weights, s.outputs, s.inputs, i / SIZES % 4 < 2 ? OP_F32 : OP_BF16);
		void *device_x = rig_act(&r, x, s.tokens * s.inputs);

		reference(want, x, weights, s.tokens, s.outputs, s.inputs, true);
		for (size_t j = 0; j < n; j++) {
			want[j] += accumulate ? (double)before[j] : 0.0;
			rounded = RIG_CUDA && biased ? fmax(rounded, fabs(want[j])) : 0.0;
			want[j] += biased ? (double)bias[j % s.outputs] : 0.0;
			last = fmax(last, fabs(want[j]));
		}
		OK(op_linear(r.ctx, out, device_x, &w, biased ? rig_f32(&r, bias, s.outputs) : NULL,
		    accumulate, s.tokens));
		rig_get_act(&r, got, out, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, sums) * (1 + rounded / last));
		if (!biased && !accumulate) {
			float *logits = rig_f32(&r, NULL, n);

			OK(op_logits(r.ctx, logits, device_x, &w, s.tokens));
			rig_get(&r, got, logits, n);
			CHECK_NEAR(got, want, n, sums);
		}
		free(x);
		free(weights);
		free(bias);
		free(before);
		free(got);
		free(want);
		rig_clear(&r);
	}
}

/* The gradient of sum(dout * x W^T) is linear in W: the reference product is exact, and central
   differences would only repeat it. One size is differentiated below. */
TEST(backward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 4 * SIZES; i++) {
		struct sizes s = sizes[i % SIZES];
		bool accumulate = i / SIZES % 2 == 1;
		size_t n = s.tokens * s.inputs;
		float *dout = random_floats(s.tokens * s.outputs, 1.0f, i);
		float *weights = random_floats(s.outputs * s.inputs, 1.0f, i + 7);
		float *before = random_floats(n, 1.0f, 5), *got = malloc(n * sizeof(float));
		void *dx = accumulate ? rig_act(&r, before, n) : rig_act_nan(&r, n);
		double *want = malloc(n * sizeof(double));
		struct op_matrix w =
		    matrix(&r, weights, s.outputs, s.inputs, i < 2 * SIZES ? OP_F32 : OP_BF16);
		void *device = rig_act(&r, dout, s.tokens * s.outputs);

		reference(want, dout, weights, s.tokens, s.inputs, s.outputs, false);
		for (size_t j = 0; j < n && accumulate; j++)
			want[j] += (double)before[j];
		OK(op_linear_backward(r.ctx, dx, device, &w, accumulate, s.tokens));
		rig_get_act(&r, got, dx, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, sums));
		free(dout);
		free(weights);
		free(before);
		free(got);
		free(want);
		rig_clear(&r);
	}
}

struct difference {
	struct sizes s;
	const float *w, *dout;
};

static double
loss(const double *x, const void *context)
{
	const struct difference *d = context;
	double sum = 0.0;

	for (size_t t = 0; t < d->s.tokens; t++)
		for (size_t n = 0; n < d->s.outputs; n++)
			for (size_t k = 0; k < d->s.inputs; k++)
				sum += (double)d->dout[t * d->s.outputs + n] *
				       x[t * d->s.inputs + k] * (double)d->w[n * d->s.inputs + k];
	return sum;
}

TEST(backward_by_differences)
{
	FOR_EACH_RIG(r)
	{
		struct difference d = {.s = {3, 11, 7}};
		float *x = random_floats(21, 1.0f, 1), *w = random_floats(77, 1.0f, 2), got[21];
		float *dout = random_floats(33, 1.0f, 3);
		void *dx = rig_act_nan(&r, 21);
		struct op_matrix m = matrix(&r, w, 11, 7, r.act);
		void *device = rig_act(&r, dout, 33);
		double *wide = widen(x, 21), want[21];

		d.w = w;
		d.dout = dout;
		differentiate(want, wide, 21, loss, &d);
		OK(op_linear_backward(r.ctx, dx, device, &m, false, 3));
		rig_get_act(&r, got, dx, 21);
		CHECK_NEAR(got, want, 21, act_tolerance(r.act, 1e-6));
		free(x);
		free(w);
		free(dout);
		free(wide);
	}
}

TEST(same_bits_twice)
{
	FOR_EACH_RIG(r)
	{
		size_t tokens = 257, outputs = 331, inputs = 577, n = tokens * outputs;
		float *x = random_floats(tokens * inputs, 1.0f, 1);
		void *out = rig_act_nan(&r, n);
		float *w = random_floats(outputs * inputs, 1.0f, 2);
		float *first = malloc(n * sizeof(float)), *second = malloc(n * sizeof(float));
		struct op_matrix m = matrix(&r, w, outputs, inputs, r.act);
		void *device = rig_act(&r, x, tokens * inputs);

		OK(op_linear(r.ctx, out, device, &m, NULL, false, tokens));
		rig_get_act(&r, first, out, n);
		OK(op_linear(r.ctx, out, device, &m, NULL, false, tokens));
		rig_get_act(&r, second, out, n);
		CHECK(memcmp(first, second, n * sizeof(float)) == 0);
		free(x);
		free(w);
		free(first);
		free(second);
	}
}

TEST_MAIN(TEST_CASE(forward), TEST_CASE(backward), TEST_CASE(backward_by_differences),
    TEST_CASE(same_bits_twice))
