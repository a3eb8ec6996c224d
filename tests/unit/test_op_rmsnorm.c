#include "tests/unit/op_test.h"

enum { MOST_ROWS = 64, MOST = 20000 /* elements of a shape */, WHOLE = 2048 };

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
	static double out[MOST];
	const struct norm *n = context;
	double rstd[MOST_ROWS], sum = 0.0;

	reference(out, rstd, x, n);
	for (size_t i = 0; i < n->tokens * n->width; i++)
		sum += out[i] * (double)n->dout[i];
	return sum;
}

/* A row is kept by a warp, by blocks of two sizes, or read twice: the last width of each and the
   first of the next, more and fewer rows than a block has, and rows that are no whole vectors. */
static const size_t shapes[][2] = {{1, 1}, {3, 7}, {5, 64}, {2, 577}, {61, 13}, {1, 1025}, {19, 8},
    {9, 576}, {2, 1024}, {3, 1028}, {2, 4096}, {1, 4100}, {2, 8192}, {1, 8196}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Each shape with aligned arrays and without, and with both conventions of the weight. */
static struct norm
shape_of(struct rig *r, size_t i)
{
	const size_t *s = shapes[i % SHAPES];

	r->offset = i < 2 * SHAPES ? 0 : 4;
	return (struct norm){
	    .tokens = s[0], .width = s[1], .one_plus = i / SHAPES % 2 != 0, .epsilon = 1e-5};
}

/* Tolerance: 1e-6 for float32's rstd and two roundings; half a unit where bf16 comes out. */
TEST(forward)
{
	static double want[MOST];
	static float got[MOST];

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 3 * SHAPES; i++) {
		struct norm norm = shape_of(&r, i);
		size_t n = norm.tokens * norm.width;
		float *x = random_floats(n, 3.0f, i), *w = random_floats(norm.width, 1.0f, 2);
		double *wide = widen(x, n), rstd[MOST_ROWS];
		void *out = rig_alloc(&r, n * sizeof(float));
		float *device_rstd = rig_f32(&r, NULL, norm.tokens);

		norm.weight = w;
		reference(want, rstd, wide, &norm);
		OK(op_rmsnorm(r.ctx, out, device_rstd, rig_f32(&r, x, n),
		    rig_f32(&r, w, norm.width), 1e-5f, norm.one_plus, norm.tokens, norm.width));
		rig_get_act(&r, got, out, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, 1e-6));
		rig_get(&r, got, device_rstd, norm.tokens);
		CHECK_NEAR(got, rstd, norm.tokens, 1e-6);
		free(x);
		free(w);
		free(wide);
		rig_clear(&r);
	}
}

static bool
same(struct rig *r, const void *a, const void *b, size_t bytes)
{
	static char host[2][MOST * sizeof(float)];

	OK(op_download(r->ctx, host[0], a, bytes));
	OK(op_download(r->ctx, host[1], b, bytes));
	return memcmp(host[0], host[1], bytes) == 0;
}

/* What op_add and op_rmsnorm give one after the other, to the bit: backward has the norm again by
   the second alone. */
TEST(add_and_norm)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 3 * SHAPES; i++) {
		struct norm norm = shape_of(&r, i);
		size_t T = norm.tokens, D = norm.width, n = T * D;
		size_t size = r.act == OP_F32 ? sizeof(float) : sizeof(uint16_t);
		float *x = random_floats(n, 3.0f, i), *y = random_floats(n, 2.0f, i + 1);
		float *in = rig_f32(&r, x, n), *weight = rig_f32(&r, y, D);
		float *sum = rig_f32(&r, NULL, n), *sum2 = rig_f32(&r, NULL, n);
		float *rstd = rig_f32(&r, NULL, T), *rstd2 = rig_f32(&r, NULL, T);
		void *branch = rig_act(&r, y, n), *out = rig_act_nan(&r, n);
		void *out2 = rig_act_nan(&r, n);

		OK(op_add(r.ctx, sum, in, branch, n));
		OK(op_rmsnorm(r.ctx, out, rstd, sum, weight, 1e-5f, norm.one_plus, T, D));
		for (int place = 0; place < (r.act == OP_F32 ? 2 : 1); place++) {
			float *to = place == 0 ? sum2 : branch;

			OK(op_add_rmsnorm(r.ctx, out2, rstd2, to, in, branch, weight, 1e-5f,
			    norm.one_plus, T, D));
			CHECK_MSG(same(&r, sum, to, n * sizeof(float)), "sums of %zu", D);
			CHECK_MSG(same(&r, out, out2, n * size), "norms of %zu", D);
			CHECK_MSG(same(&r, rstd, rstd2, T * sizeof(float)), "rstd of %zu", D);
		}
		free(x);
		free(y);
		rig_clear(&r);
	}
}

/* Tolerance 2e-6: all but dout is float32; width 1 is 1 - x^2 rstd^2, which cancels. dx is added to
 * what is there, and may be rounded into another array or over dout. */
TEST(backward)
{
	static double want[MOST];
	static float got[MOST], rounded[MOST];

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 3 * SHAPES; i++) {
		struct norm norm = shape_of(&r, i);
		size_t width = norm.width, n = norm.tokens * width;
		float *x = random_floats(n, 2.0f, i + 5), *w = random_floats(width, 1.0f, 3);
		float *dout = random_floats(n, 1.0f, 4), *before = random_floats(n, 0.5f, 6);
		double *wide = widen(x, n), rstd[MOST_ROWS];
		float rstd_f32[MOST_ROWS], *dx = rig_f32(&r, before, n);
		void *device = rig_act(&r, dout, n);
		void *narrow = i % 3 == 0 ? NULL : i % 3 == 1 ? device : rig_act_nan(&r, n);

		norm.weight = w, norm.dout = dout;
		reference(want, rstd, wide, &norm);
		for (size_t t = 0; t < norm.tokens; t++)
			rstd_f32[t] = (float)rstd[t];
		OK(op_rmsnorm_backward(r.ctx, dx, narrow, device, rig_f32(&r, x, n),
		    rig_f32(&r, w, width), rig_f32(&r, rstd_f32, norm.tokens), norm.one_plus,
		    norm.tokens, width));
		rig_get(&r, got, dx, n);
		if (n > WHOLE) {
			check_gradient("dx", got, before, wide, 0, n, loss, &norm, 2e-6);
		} else {
			differentiate(want, wide, n, loss, &norm);
			for (size_t j = 0; j < n; j++)
				want[j] += (double)before[j];
			CHECK_NEAR(got, want, n, width == 1 ? 5e-5 : 2e-6);
		}
		if (narrow != NULL) {
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

/* A row gives the same bits alone and among others. */
TEST(rows_are_their_own)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < SHAPES; i++) {
		size_t T = shapes[i][0], D = shapes[i][1], n = T * D;
		size_t size = r.act == OP_F32 ? sizeof(float) : sizeof(uint16_t);
		float *x = random_floats(n, 2.0f, i);
		float *rstd = rig_f32(&r, NULL, T), *last = rig_f32(&r, x + n - D, D);
		float *device = rig_f32(&r, x, n), *weight = rig_f32(&r, x, D);
		float *dx = rig_f32(&r, x, n), *dlast = rig_f32(&r, x + n - D, D);
		char *out = rig_act_nan(&r, n);
		void *alone = rig_act_nan(&r, D);

		OK(op_rmsnorm(r.ctx, out, rstd, device, weight, 1e-5f, true, T, D));
		OK(op_rmsnorm(r.ctx, alone, rstd, last, weight, 1e-5f, true, 1, D));
		CHECK_MSG(same(&r, out + (n - D) * size, alone, D * size), "width %zu", D);
		OK(op_rmsnorm(r.ctx, out, rstd, device, weight, 1e-5f, true, T, D));
		OK(op_rmsnorm_backward(r.ctx, dx, NULL, out, device, weight, rstd, true, T, D));
		OK(op_rmsnorm_backward(
		    r.ctx, dlast, NULL, alone, last, weight, rstd + T - 1, true, 1, D));
		CHECK_MSG(same(&r, dx + n - D, dlast, D * sizeof(float)), "width %zu", D);
		free(x);
		rig_clear(&r);
	}
}

TEST_MAIN(
    TEST_CASE(forward), TEST_CASE(add_and_norm), TEST_CASE(backward), TEST_CASE(rows_are_their_own))
