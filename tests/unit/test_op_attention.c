#include "tests/unit/op_test.h"

struct attention {
	size_t heads, kv_heads, dim, window, sequences;
	uint32_t start[6];
	double scale;
	const float *dout;
};

/* Lengths of 1, less and more than a block of queries, primes; groups; windows over blocks. */
static const struct attention shapes[] = {
    {.heads = 1, .kv_heads = 1, .dim = 1, .sequences = 1, .start = {0, 1}},
    {.heads = 2, .kv_heads = 2, .dim = 5, .sequences = 3, .start = {0, 1, 8, 13}},
    {.heads = 9, .kv_heads = 3, .dim = 7, .sequences = 2, .start = {0, 31, 54}},
    {.heads = 4, .kv_heads = 1, .dim = 16, .sequences = 4, .start = {0, 64, 129, 130, 197}},
    {.heads = 2, .kv_heads = 1, .dim = 13, .window = 1, .sequences = 2, .start = {0, 5, 12}},
    {.heads = 3, .kv_heads = 3, .dim = 8, .window = 7, .sequences = 2, .start = {0, 70, 211}},
    {.heads = 2, .kv_heads = 2, .dim = 4, .window = 100, .sequences = 1, .start = {0, 151}},
    {.heads = 2, .kv_heads = 1, .dim = 4, .window = 500, .sequences = 2, .start = {0, 0, 67}},
    /* windows that no int holds, or not with a row added */
    {.heads = 1, .kv_heads = 1, .dim = 4, .window = 2147483647, .sequences = 1, .start = {0, 67}},
    {.heads = 1, .kv_heads = 1, .dim = 64, .window = 2147483647, .sequences = 1, .start = {0, 67}},
    {.heads = 1, .kv_heads = 1, .dim = 64, .window = 2147483648, .sequences = 1, .start = {0, 67}},
    {.heads = 1, .kv_heads = 1, .dim = 4, .window = 4294967297, .sequences = 1, .start = {0, 67}},
    /* the widths that have kernels of their own somewhere */
    {.heads = 2, .kv_heads = 1, .dim = 64, .sequences = 3, .start = {0, 65, 66, 90}},
    {.heads = 1, .kv_heads = 1, .dim = 64, .window = 37, .sequences = 1, .start = {0, 135}},
    {.heads = 1, .kv_heads = 1, .dim = 80, .sequences = 2, .start = {0, 33, 50}},
    {.heads = 1, .kv_heads = 1, .dim = 96, .sequences = 1, .start = {0, 41}},
    {.heads = 1, .kv_heads = 1, .dim = 128, .window = 20, .sequences = 2, .start = {0, 66, 70}},
    {.heads = 2, .kv_heads = 1, .dim = 256, .sequences = 2, .start = {0, 7, 24}},
    /* and in them more than a block, an odd rest, groups, bounds of windows within a step */
    {.heads = 2, .kv_heads = 1, .dim = 64, .sequences = 3, .start = {0, 129, 130, 203}},
    {.heads = 3, .kv_heads = 1, .dim = 80, .window = 50, .sequences = 2, .start = {0, 1, 135}},
    {.heads = 1, .kv_heads = 1, .dim = 96, .window = 97, .sequences = 2, .start = {0, 130, 163}},
    {.heads = 2, .kv_heads = 1, .dim = 128, .sequences = 2, .start = {0, 149, 178}},
    {.heads = 1, .kv_heads = 1, .dim = 128, .window = 1, .sequences = 1, .start = {0, 75}},
    {.heads = 2, .kv_heads = 1, .dim = 256, .window = 33, .sequences = 2, .start = {0, 135, 150}},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static size_t
tokens_of(const struct attention *a)
{
	return a->start[a->sequences];
}

/* out (H, E), lse (H): query i of the sequence that starts at row `start`. */
static void
reference_row(double *out, double *lse, const double *q, const double *k, const double *v,
    size_t start, size_t i, size_t h, const struct attention *a)
{
	size_t g = h / (a->heads / a->kv_heads), E = a->dim;
	size_t from = a->window != 0 && i - start >= a->window ? i - a->window + 1 : start;
	double scores[256], most = -INFINITY, sum = 0.0;

	for (size_t j = from; j <= i; j++) {
		scores[j - from] = 0.0;
		for (size_t e = 0; e < E; e++)
			scores[j - from] += a->scale * q[(i * a->heads + h) * E + e] *
					    k[(j * a->kv_heads + g) * E + e];
		most = fmax(most, scores[j - from]);
	}
	for (size_t j = from; j <= i; j++)
		sum += exp(scores[j - from] - most);
	*lse = most + log(sum);
	memset(out, 0, E * sizeof(double));
	for (size_t j = from; j <= i; j++)
		for (size_t e = 0; e < E; e++)
			out[e] += exp(scores[j - from] - *lse) * v[(j * a->kv_heads + g) * E + e];
}

static void
reference(double *out, double *lse, const double *q, const double *k, const double *v,
    const struct attention *a)
{
	for (size_t s = 0; s < a->sequences; s++)
		for (size_t i = a->start[s]; i < a->start[s + 1]; i++)
			for (size_t h = 0; h < a->heads; h++)
				reference_row(out + (i * a->heads + h) * a->dim,
				    lse + i * a->heads + h, q, k, v, a->start[s], i, h, a);
}

static struct op_attention_shape
shape_of(const struct attention *a)
{
	return (struct op_attention_shape){
	    a->heads, a->kv_heads, a->dim, a->window, (float)a->scale};
}

/* all: q, k, v one after another. */
static double
loss(const double *all, const void *context)
{
	const struct attention *a = context;
	size_t nq = tokens_of(a) * a->heads * a->dim, nk = tokens_of(a) * a->kv_heads * a->dim;
	double *out = malloc(nq * sizeof(double)), sum = 0.0;
	double *lse = malloc(tokens_of(a) * a->heads * sizeof(double));

	reference(out, lse, all, all + nq, all + nq + nk, a);
	for (size_t i = 0; i < nq; i++)
		sum += out[i] * (double)a->dout[i];
	free(out);
	free(lse);
	return sum;
}

/* Both directions on one shape. Tolerances: 3e-6 for float32 (scores of up to 211 keys); where a
   window is 1 the gradients of q and k are 0, and what is left is the rounding of sums of as many
   products as a head is wide: as many times that as 32 fit in it. Half a unit more for an output in
   bfloat16; the gradients see the rounded output only through D, which the rounding of `out` moves
   by its half unit, and are rounded themselves. Tensor cores take P and dS rounded too: half a unit
   of 2^-9 more. */
static void
check_shape(struct rig *r, struct attention a)
{
	size_t tokens = tokens_of(&a), nq = tokens * a.heads * a.dim;
	size_t nk = tokens * a.kv_heads * a.dim, n = nq + 2 * nk, nl = tokens * a.heads;
	float *x = random_floats(n, 1.5f, nq), *dout = random_floats(nq, 1.0f, 3);
	float *got = malloc(nq * sizeof(float)), *again = malloc(nq * sizeof(float));
	float *lse = rig_f32(r, NULL, nl);
	void *dq = rig_act_nan(r, nq), *dk = rig_act_nan(r, nk), *dv = rig_act_nan(r, nk);
	void *device_dout = rig_act(r, dout, nq);
	void *q = rig_act(r, x, nq), *k = rig_act(r, x + nq, nk), *v = rig_act(r, x + nq + nk, nk);
	void *out = rig_alloc(r, nq * sizeof(float));
	double *all, *want = malloc(nq * sizeof(double)), *want_lse = malloc(nl * sizeof(double));
	double single = 3e-6 * (a.window == 1 ? fmax(1.0, (double)a.dim / 32) : 1.0);
	double tolerance = r->act == OP_BF16 ? (RIG_CUDA ? 8e-3 : 7e-3) : single;
	struct op_packing packing = {a.start, NULL, a.sequences, tokens};
	struct op_attention_shape shape;

	a.scale = 1.0 / sqrt((double)a.dim);
	a.dout = dout;
	shape = shape_of(&a);
	all = widen(x, n);
	reference(want, want_lse, all, all + nq, all + nq + nk, &a);
	OK(op_attention(r->ctx, out, lse, q, k, v, &packing, &shape));
	rig_get_act(r, got, out, nq);
	CHECK_NEAR(got, want, nq, act_tolerance(r->act, 3e-6));
	OK(op_attention(r->ctx, out, lse, q, k, v, &packing, &shape));
	rig_get_act(r, again, out, nq);
	CHECK(memcmp(got, again, nq * sizeof(float)) == 0);
	rig_get(r, got, lse, nl);
	CHECK_NEAR(got, want_lse, nl, 2e-6);

	OK(op_attention_backward(
	    r->ctx, dq, dk, dv, device_dout, out, lse, q, k, v, &packing, &shape));
	rig_get_act(r, got, dq, nq);
	check_gradient("dq", got, NULL, all, 0, nq, loss, &a, tolerance);
	rig_get_act(r, got, dk, nk);
	check_gradient("dk", got, NULL, all, nq, nk, loss, &a, tolerance);
	OK(op_attention_backward(
	    r->ctx, dq, dk, dv, device_dout, out, lse, q, k, v, &packing, &shape));
	rig_get_act(r, again, dk, nk);
	CHECK(memcmp(got, again, nk * sizeof(float)) == 0);
	rig_get_act(r, got, dv, nk);
	check_gradient("dv", got, NULL, all, nq + nk, nk, loss, &a, tolerance);
	free(x);
	free(dout);
	free(got);
	free(again);
	free(all);
	free(want);
	free(want_lse);
}

TEST(forward_and_backward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < SHAPES; i++) {
		check_shape(&r, shapes[i]);
		rig_clear(&r);
	}
}

/* Packing changes nothing: a sequence alone gives the bits it gives among others. */
TEST(packed_is_alone)
{
	FOR_EACH_RIG(r)
	{
		static const uint32_t start[] = {0, 50, 147, 160}, alone[] = {0, 97};
		size_t row = 4 * 8, n = 160 * row;
		float *x = random_floats(3 * n, 1.0f, 4);
		float *one = malloc(97 * row * sizeof(float)), *got = malloc(n * sizeof(float));
		struct op_attention_shape shape = {4, 4, 8, 0, 0.3f};
		struct op_packing packing = {start, NULL, 3, 160}, single = {alone, NULL, 1, 97};
		void *out = rig_alloc(&r, n * sizeof(float));
		float *lse = rig_f32(&r, NULL, 160 * 4);

		OK(op_attention(r.ctx, out, lse, rig_act(&r, x, n), rig_act(&r, x + n, n),
		    rig_act(&r, x + 2 * n, n), &packing, &shape));
		rig_get_act(&r, got, out, n);
		OK(op_attention(r.ctx, out, lse, rig_act(&r, x + 50 * row, 97 * row),
		    rig_act(&r, x + n + 50 * row, 97 * row),
		    rig_act(&r, x + 2 * n + 50 * row, 97 * row), &single, &shape));
		rig_get_act(&r, one, out, 97 * row);
		CHECK(memcmp(one, got + 50 * row, 97 * row * sizeof(float)) == 0);
		free(x);
		free(one);
		free(got);
	}
}

/* The cache's attention is the last row of the other one. */
TEST(cached)
{
	static const size_t lengths[] = {1, 2, 31, 97, 211};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 10; i++) {
		struct attention a = {
		    .heads = 6, .kv_heads = 2, .dim = 13, .window = i < 5 ? 0 : 29, .scale = 0.4};
		size_t length = lengths[i % 5], nq = 6 * 13, nk = length * 2 * 13;
		float *q = random_floats(nq * length, 1.0f, i);
		float *kv = random_floats(2 * nk, 1.0f, i + 3), got[78];
		void *k = rig_act(&r, kv, nk), *v = rig_act(&r, kv + nk, nk);
		void *last = rig_act(&r, q + nq * (length - 1), nq);
		void *out = rig_alloc(&r, sizeof(got));
		double *wide_q = widen(q, nq * length), *wide = widen(kv, 2 * nk);
		double want[78], lse;
		struct op_attention_shape shape = shape_of(&a);

		for (size_t h = 0; h < 6; h++)
			reference_row(
			    want + h * 13, &lse, wide_q, wide, wide + nk, 0, length - 1, h, &a);
		OK(op_attention_cached(r.ctx, out, last, k, v, length, &shape));
		rig_get_act(&r, got, out, nq);
		CHECK_NEAR(got, want, nq, act_tolerance(r.act, 3e-6));
		free(q);
		free(kv);
		free(wide_q);
		free(wide);
		rig_clear(&r);
	}
}

/* dout, which is q once more, at an odd element alone, where all else is aligned. */
static void
check_unaligned_backward(struct rig *r, float *x, const void *odd, const void *out,
    const float *lse, const struct op_packing *packing, const struct op_attention_shape *shape)
{
	size_t n = packing->tokens * shape->heads * shape->head_dim;
	float *got = malloc(n * sizeof(float)), *want = malloc(n * sizeof(float));
	void *q = rig_act(r, x, n), *k = rig_act(r, x + n, n), *v = rig_act(r, x + 2 * n, n);
	void *dq = rig_act_nan(r, n), *dk = rig_act_nan(r, n), *dv = rig_act_nan(r, n);
	double *wide;

	OK(op_attention_backward(r->ctx, dq, dk, dv, q, out, lse, q, k, v, packing, shape));
	rig_get_act(r, want, dk, n);
	OK(op_attention_backward(r->ctx, dq, dk, dv, odd, out, lse, q, k, v, packing, shape));
	rig_get_act(r, got, dk, n);
	wide = widen(want, n);
	CHECK_NEAR(got, wide, n, 3.0 * act_tolerance(r->act, 3e-6));
	free(got);
	free(want);
	free(wide);
}

/* Operands that begin at any element: no copy may count on more. Tolerance: two roundings, as
   another kernel may take them. */
TEST(unaligned)
{
	FOR_EACH_RIG(r)
	{
		static const uint32_t start[] = {0, 70};
		size_t n = 70 * 2 * 64, size = r.act == OP_F32 ? 4 : 2;
		float *x = random_floats(3 * n + 1, 1.0f, 5), *want = malloc(n * sizeof(float));
		float *got = malloc(n * sizeof(float)), *lse = rig_f32(&r, NULL, 140);
		struct op_attention_shape shape = {2, 2, 64, 0, 0.125f};
		struct op_packing packing = {start, NULL, 1, 70};
		char *odd = rig_act(&r, x, 3 * n + 1), *out = rig_alloc(&r, (n + 1) * size);
		double *wide;

		OK(op_attention(r.ctx, out, lse, rig_act(&r, x + 1, n), rig_act(&r, x + 1 + n, n),
		    rig_act(&r, x + 1 + 2 * n, n), &packing, &shape));
		rig_get_act(&r, want, out, n);
		odd += size;
		OK(op_attention(r.ctx, out + size, lse, odd, odd + n * size, odd + 2 * n * size,
		    &packing, &shape));
		rig_get_act(&r, got, out + size, n);
		wide = widen(want, n);
		CHECK_NEAR(got, wide, n, 2.0 * act_tolerance(r.act, 3e-6));
		check_unaligned_backward(&r, x + 1, odd, out + size, lse, &packing, &shape);
		free(x);
		free(want);
		free(got);
		free(wide);
	}
}

TEST(refuses)
{
	struct rig r = rig_open(OP_F32, 1);
	struct op_attention_shape shape = {3, 2, 4, 0, 1.0f};
	static const uint32_t start[] = {0, 2};
	struct op_packing packing = {start, NULL, 1, 2};
	float *x = rig_alloc(&r, 1000), *lse = rig_alloc(&r, 1000);

	CHECK(op_attention(r.ctx, x, lse, x, x, x, &packing, &shape) == OP_UNSUPPORTED);
	CHECK(op_attention_cached(r.ctx, x, x, x, x, 2, &shape) == OP_UNSUPPORTED);
	shape.kv_heads = 0;
	CHECK(op_attention(r.ctx, x, lse, x, x, x, &packing, &shape) == OP_UNSUPPORTED);
	CHECK(op_attention_backward(r.ctx, x, x, x, x, x, lse, x, x, x, &packing, &shape) ==
	      OP_UNSUPPORTED);
	rig_close(&r);
}

/* A key that is not a number is in everything that sees it, also where it is the only one that a
   part of the work has; nothing of another sequence sees it. */
TEST(not_finite_stays)
{
	enum { KEYS = 19, BAD = 5, FIRST = 7 };
	static const uint32_t start[] = {0, FIRST, KEYS};
	static const size_t dims[] = {5, 64};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2; i++) {
		const size_t dim = dims[i], n = KEYS * dim;
		const struct op_attention_shape shape = {1, 1, dim, 0, 0.5f};
		const struct op_packing packing = {start, NULL, 2, KEYS};
		float *host = random_floats(n, 1.0f, 1), *got = malloc(n * sizeof(*got));
		void *q = rig_act(&r, host, n), *v = rig_act(&r, host, n), *k;
		void *out = rig_act_nan(&r, n), *lse = rig_alloc(&r, KEYS * sizeof(float));

		host[BAD * dim + 3] = NAN;
		k = rig_act(&r, host, n);
		OK(op_attention(r.ctx, out, lse, q, k, v, &packing, &shape));
		rig_get_act(&r, got, out, n);
		for (size_t t = 0; t < KEYS; t++)
			for (size_t e = 0; e < dim; e++)
				CHECK(t >= FIRST ? isfinite(got[t * dim + e])
						 : t < BAD || isnan(got[t * dim + e]));
		OK(op_attention_cached(r.ctx, out, q, k, v, FIRST, &shape));
		rig_get_act(&r, got, out, dim);
		for (size_t e = 0; e < dim; e++)
			CHECK(isnan(got[e]));
		free(host);
		free(got);
		rig_clear(&r);
	}
}

TEST_MAIN(TEST_CASE(forward_and_backward), TEST_CASE(packed_is_alone), TEST_CASE(cached),
    TEST_CASE(unaligned), TEST_CASE(refuses), TEST_CASE(not_finite_stays))
