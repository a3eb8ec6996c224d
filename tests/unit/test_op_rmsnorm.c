#include "tests/unit/op_test.h"

struct norm {
	size_t tokens, width;
	bool one_plus;
	double epsilon;
	const float *weight, *dout;
};

/* y = x / sqrt(mean(x^2) + eps) * (w or 1+w). */
static void
reference(double *out, double *rstd, const double *x, const struct norm *n)
{
	for (size_t t = 0; t < n->tokens; t++) {
		double sum = 0.0;

		for (size_t i = 0; i < n->width; i++)
			sum += x[t * n->width + i] * x[t * n->width + i];
		rstd[t] = 1.0 / sqrt(sum / (double)n->width + n->epsilon);
		for (size_t i = 0; i < n->width; i++)
			out[t * n->width + i] = x[t * n->width + i] * rstd[t] *
						((double)n->weight[i] + (n->one_plus ? 1.0 : 0.0));
	}
}

static double
loss(const double *x, const void *context)
{
	const struct norm *n = context;
	double out[2048], rstd[64], sum = 0.0;

	reference(out, rstd, x, n);
	for (size_t i = 0; i < n->tokens * n->width; i++)
		sum += out[i] * (double)n->dout[i];
	return sum;
}

static const size_t shapes[][2] = {{1, 1}, {3, 7}, {5, 64}, {2, 577}, {61, 13}, {1, 1025}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Tolerance: 1e-6 for float32's rstd and two roundings; half a unit where bf16 comes out. */
TEST(forward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2 * SHAPES; i++) {
		size_t tokens = shapes[i % SHAPES][0], width = shapes[i % SHAPES][1];
		size_t n = tokens * width;
		float *x = random_floats(n, 3.0f, i), *w = random_floats(width, 1.0f, 2);
		struct norm norm = {tokens, width, i >= SHAPES, 1e-5, w, NULL};
		double *wide = widen(x, n), want[2048], rstd[64];
		float got[2048];
		void *out = rig_alloc(&r, n * sizeof(float));
		float *device_rstd = rig_f32(&r, NULL, tokens);

		reference(want, rstd, wide, &norm);
		OK(op_rmsnorm(r.ctx, out, device_rstd, rig_f32(&r, x, n), rig_f32(&r, w, width),
		    1e-5f, norm.one_plus, tokens, width));
		rig_get_act(&r, got, out, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, 1e-6));
		rig_get(&r, got, device_rstd, tokens);
		CHECK_NEAR(got, rstd, tokens, 1e-6);
		free(x);
		free(w);
		free(wide);
		rig_clear(&r);
	}
}

/* Tolerance 2e-6: all but dout is float32; width 1 is 1 - x^2 rstd^2, which cancels. dx is added to
 * what is there, and may be rounded into another array or over dout. */
TEST(backward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2 * SHAPES; i++) {
		size_t tokens = shapes[i % SHAPES][0], width = shapes[i % SHAPES][1];
		size_t n = tokens * width;
		float *x = random_floats(n, 2.0f, i + 5), *w = random_floats(width, 1.0f, 3);
		float *dout = random_floats(n, 1.0f, 4), *before = random_floats(n, 0.5f, 6);
		struct norm norm = {tokens, width, i >= SHAPES, 1e-5, w, dout};
		double *wide = widen(x, n), want[2048], rstd[64];
		float got[2048], rstd_f32[64], *dx = rig_f32(&r, before, n);
		void *device = rig_act(&r, dout, n);
		void *narrow = i % 3 == 0 ? NULL : i % 3 == 1 ? device : rig_act_nan(&r, n);

		reference(want, rstd, wide, &norm);
		for (size_t t = 0; t < tokens; t++)
			rstd_f32[t] = (float)rstd[t];
		differentiate(want, wide, n, loss, &norm);
		for (size_t j = 0; j < n; j++)
			want[j] += (double)before[j];
		OK(op_rmsnorm_backward(r.ctx, dx, narrow, device, rig_f32(&r, x, n),
		    rig_f32(&r, w, width), rig_f32(&r, rstd_f32, tokens), norm.one_plus, tokens,
		    width));
		rig_get(&r, got, dx, n);
		CHECK_NEAR(got, want, n, width == 1 ? 5e-5 : 2e-6);
		if (narrow != NULL) {
			float rounded[2048];

			round_to(got, n, r.act);
			rig_get_act(&r, rounded, narrow, n);
			CHECK(memcmp(rounded, got, n * sizeof(float)) == 0);
		}
		free(x);
		free(w);
		free(dout);
		free(before);
		free(wide);
		rig_clear(&r);
	}
}

TEST_MAIN(TEST_CASE(forward), TEST_CASE(backward))
