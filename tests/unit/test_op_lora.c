#include "tests/unit/op_test.h"

struct lora {
	size_t tokens, outputs, inputs, rank;
	double scale;
	const float *dout;
};

static const struct lora shapes[] = {{1, 1, 1, 1, 2.0, NULL}, {3, 5, 7, 2, 2.0, NULL},
    {65, 13, 31, 8, 0.5, NULL}, {129, 192, 64, 3, 1.0, NULL}, {67, 33, 577, 8, 2.0, NULL},
    {300, 96, 97, 16, 2.0, NULL}, {70, 40, 35, 17, 2.0, NULL}, {33, 48, 72, 64, 1.0, NULL},
    {5, 9, 24, 4096, 0.5, NULL}, {40, 24, 20, 4, 1.0, NULL}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* xa (T, R) = x A^T; out (T, N) = scale xa B^T. */
static void
reference(double *out, double *xa, const double *x, const double *a, const double *b,
    const struct lora *l)
{
	for (size_t t = 0; t < l->tokens; t++) {
		for (size_t r = 0; r < l->rank; r++) {
			xa[t * l->rank + r] = 0.0;
			for (size_t k = 0; k < l->inputs; k++)
				xa[t * l->rank + r] += x[t * l->inputs + k] * a[r * l->inputs + k];
		}
		for (size_t n = 0; n < l->outputs; n++) {
			double sum = 0.0;

			for (size_t r = 0; r < l->rank; r++)
				sum += xa[t * l->rank + r] * b[n * l->rank + r];
			out[t * l->outputs + n] = l->scale * sum;
		}
	}
}

/* Everything on the host that a test of one shape needs. */
struct data {
	float *x, *a, *b, *dout;
	size_t nx, na, nb, nout, nxa;
};

static struct data
data_new(const struct lora *l)
{
	struct data d = {.nx = l->tokens * l->inputs,
	    .na = l->rank * l->inputs,
	    .nb = l->outputs * l->rank,
	    .nout = l->tokens * l->outputs,
	    .nxa = l->tokens * l->rank};

	d.x = random_floats(d.nx, 1.0f, 1);
	d.a = random_floats(d.na, 1.0f, 2);
	d.b = random_floats(d.nb, 1.0f, 3);
	d.dout = random_floats(d.nout, 1.0f, 4);
	return d;
}

static void
data_free(struct data *d)
{
	free(d->x);
	free(d->a);
	free(d->b);
	free(d->dout);
}

/* The pair on the device; out is NaN, da and db are 0. */
static struct op_lora_linear
pair(struct rig *r, struct data *d, const struct lora *l)
{
	return (struct op_lora_linear){
	    .lora = {rig_f32(r, d->a, d->na), rig_f32(r, d->b, d->nb), l->rank, (float)l->scale},
	    .outputs = l->outputs,
	    .xa = rig_f32(r, NULL, d->nxa),
	    .out = rig_act_nan(r, d->nout),
	    .dout = rig_act(r, d->dout, d->nout),
	    .da = rig_alloc(r, d->na * sizeof(float)),
	    .db = rig_alloc(r, d->nb * sizeof(float))};
}

/* Tolerance 2e-6: float32 sums over up to 577 inputs; half a unit where bf16 comes out. */
TEST(forward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < SHAPES; i++) {
		const struct lora *l = &shapes[i];
		struct data d = data_new(l);
		void *x = rig_act(&r, d.x, d.nx);
		struct op_lora_linear one = pair(&r, &d, l);
		double *want = malloc(d.nout * sizeof(double)), *wide_x = widen(d.x, d.nx);
		double *wide_a = widen(d.a, d.na), *wide_b = widen(d.b, d.nb);
		double *want_xa = malloc(d.nxa * sizeof(double));
		float *got = malloc((d.nout + d.nxa) * sizeof(float));

		reference(want, want_xa, wide_x, wide_a, wide_b, l);
		OK(op_lora(r.ctx, &one, 1, x, l->tokens, l->inputs));
		rig_get_act(&r, got, one.out, d.nout);
		CHECK_NEAR(got, want, d.nout, act_tolerance(r.act, 2e-6));
		rig_get(&r, got, one.xa, d.nxa);
		CHECK_NEAR(got, want_xa, d.nxa, 2e-6);
		free(want);
		free(wide_x);
		free(wide_a);
		free(wide_b);
		free(want_xa);
		free(got);
		data_free(&d);
		rig_clear(&r);
	}
}

/* all: x, a, b one after another. */
static double
loss(const double *all, const void *context)
{
	const struct lora *l = context;
	const double *a = all + l->tokens * l->inputs, *b = a + l->rank * l->inputs;
	double *out = malloc(l->tokens * l->outputs * sizeof(double));
	double *xa = malloc(l->tokens * l->rank * sizeof(double)), sum = 0.0;

	reference(out, xa, all, a, b, l);
	for (size_t i = 0; i < l->tokens * l->outputs; i++)
		sum += out[i] * (double)l->dout[i];
	free(out);
	free(xa);
	return sum;
}

/* Tolerance 3e-6: float32 sums over up to 300 tokens; dx is an activation. The gradients of A and B
   are added, dx is written. */
TEST(backward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < SHAPES; i++) {
		struct lora l = shapes[i];
		struct data d = data_new(&l);
		size_t n = d.nx + d.na + d.nb;
		float *before = random_floats(n, 1.0f, 6), *got = malloc(n * sizeof(float));
		void *x = rig_act(&r, d.x, d.nx);
		struct op_lora_linear one = pair(&r, &d, &l);
		void *dx = rig_act_nan(&r, d.nx);
		float *da = rig_f32(&r, before + d.nx, d.na);
		float *db = rig_f32(&r, before + d.nx + d.na, d.nb);
		double *all = malloc(n * sizeof(double)), *out = malloc(d.nout * sizeof(double));
		double *wide_xa = malloc(d.nxa * sizeof(double));
		float *xa = malloc(d.nxa * sizeof(float));

		for (size_t j = 0; j < n; j++)
			all[j] = (double)(j < d.nx	    ? d.x[j]
					  : j < d.nx + d.na ? d.a[j - d.nx]
							    : d.b[j - d.nx - d.na]);
		reference(out, wide_xa, all, all + d.nx, all + d.nx + d.na, &l);
		for (size_t j = 0; j < d.nxa; j++)
			xa[j] = (float)wide_xa[j];
		l.dout = d.dout;
		one.da = da;
		one.db = db;
		OK(op_upload(r.ctx, one.xa, xa, d.nxa * sizeof(float)));
		OK(op_lora_backward(r.ctx, dx, &one, 1, x, l.tokens, l.inputs));
		rig_get_act(&r, got, dx, d.nx);
		check_gradient("dx", got, NULL, all, 0, d.nx, loss, &l, act_tolerance(r.act, 3e-6));
		rig_get(&r, got, da, d.na);
		check_gradient("da", got, before + d.nx, all, d.nx, d.na, loss, &l, 3e-6);
		rig_get(&r, got, db, d.nb);
		check_gradient(
		    "db", got, before + d.nx + d.na, all, d.nx + d.na, d.nb, loss, &l, 3e-6);
		free(before);
		free(got);
		free(all);
		free(out);
		free(wide_xa);
		free(xa);
		data_free(&d);
		rig_clear(&r);
	}
}

/* The gradients of A and B are sums over tokens: the order must be the same each time. */
TEST(same_bits_twice)
{
	FOR_EACH_RIG(r)
	{
		struct lora l = {1000, 192, 577, 8, 2.0, NULL};
		struct data d = data_new(&l);
		size_t n = d.na + d.nb;
		float *got[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
		float *xa = random_floats(d.nxa, 1.0f, 9);

		for (int i = 0; i < 2; i++) {
			void *x = rig_act(&r, d.x, d.nx);
			struct op_lora_linear one = pair(&r, &d, &l);
			void *dx = rig_alloc(&r, d.nx * sizeof(float));

			OK(op_upload(r.ctx, one.xa, xa, d.nxa * sizeof(float)));
			OK(op_lora_backward(r.ctx, dx, &one, 1, x, l.tokens, l.inputs));
			rig_get(&r, got[i], one.da, d.na);
			rig_get(&r, got[i] + d.na, one.db, d.nb);
			rig_clear(&r);
		}
		CHECK(memcmp(got[0], got[1], n * sizeof(float)) == 0);
		free(got[0]);
		free(got[1]);
		free(xa);
		data_free(&d);
	}
}

/* sum (n) += an activation on the device. */
static void
add_up(struct rig *r, double *sum, const void *device, size_t n)
{
	float *host = malloc(n * sizeof(float));

	rig_get_act(r, host, device, n);
	for (size_t i = 0; i < n; i++)
		sum[i] += (double)host[i];
	free(host);
}

/* One array of a pair taken with others against the same pair taken alone. */
static void
check_same(struct rig *r, const char *what, const void *got, const void *want, size_t n, bool act,
    double tolerance)
{
	float *a = malloc(n * sizeof(float)), *b = malloc(n * sizeof(float));
	double *wide, off;

	if (act) {
		rig_get_act(r, a, got, n);
		rig_get_act(r, b, want, n);
	} else {
		rig_get(r, a, got, n);
		rig_get(r, b, want, n);
	}
	wide = widen(b, n);
	off = distance(a, wide, n);
	CHECK_MSG(off <= tolerance, "%s is off by %.3g", what, off);
	free(a);
	free(b);
	free(wide);
}

/* Pairs that share x give what each gives alone, and dx the sum; also without dx, and with a rank
   that is not taken together. Tolerances: another order of the same sums; dx is rounded after each
   pair on both sides, or once here. */
TEST(a_group_is_its_pairs)
{
	static const size_t outputs[] = {48, 5, 17}, ranks[] = {3, 8, 70};
	enum { PAIRS = 3, T = 67, K = 96 };

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++) {
		struct op_lora_linear group[PAIRS], alone[PAIRS];
		float *x = random_floats(T * K, 1.0f, 1);
		void *device_x = rig_act(&r, x, T * K);
		void *dx = rig_act_nan(&r, T * K), *part = rig_act_nan(&r, T * K);
		double *sum = calloc(T * K, sizeof(double));
		float *got = malloc(T * K * sizeof(float));

		for (size_t j = 0; j < PAIRS; j++) {
			struct lora l = {T, outputs[j], K, ranks[i], 0.5 + (double)j, NULL};
			struct data d = data_new(&l);

			fill(d.a, d.na, 1.0f, 20 + j);
			fill(d.b, d.nb, 1.0f, 30 + j);
			group[j] = pair(&r, &d, &l);
			alone[j] = pair(&r, &d, &l);
			data_free(&d);
			OK(op_lora(r.ctx, &alone[j], 1, device_x, T, K));
			OK(op_lora_backward(r.ctx, part, &alone[j], 1, device_x, T, K));
			add_up(&r, sum, part, T * K);
		}
		OK(op_lora(r.ctx, group, PAIRS, device_x, T, K));
		OK(op_lora_backward(r.ctx, dx, group, PAIRS, device_x, T, K));
		rig_get_act(&r, got, dx, T * K);
		CHECK_NEAR(got, sum, T * K, 3 * act_tolerance(r.act, 2e-6));
		for (size_t j = 0; j < PAIRS; j++) {
			const size_t na = ranks[i] * K, nb = outputs[j] * ranks[i];

			check_same(&r, "xa", group[j].xa, alone[j].xa, T * ranks[i], false, 2e-6);
			check_same(&r, "out", group[j].out, alone[j].out, T * outputs[j], true,
			    act_tolerance(r.act, 2e-6));
			check_same(&r, "da", group[j].da, alone[j].da, na, false, 2e-6);
			check_same(&r, "db", group[j].db, alone[j].db, nb, false, 2e-6);
		}
		OK(op_lora_backward(r.ctx, NULL, group, PAIRS, device_x, T, K));
		for (size_t j = 0; j < PAIRS; j++) { /* added once more */
			OK(op_lora_backward(r.ctx, NULL, &alone[j], 1, device_x, T, K));
			check_same(
			    &r, "da, twice", group[j].da, alone[j].da, ranks[i] * K, false, 2e-6);
		}
		free(x);
		free(sum);
		free(got);
		rig_clear(&r);
	}
}

/* A linear layer with its pair: the pair's share first, what W gives is added. Tolerance: half a
   unit of the sum and half a unit of the share, which is much smaller; float32 sums of
   K + R products, as in test_op_linear.c. */
TEST(beside_a_linear_layer)
{
	enum { T = 67, N = 48, K = 577 };
	const struct lora l = {T, N, K, 8, 1.0 / 64, NULL};

	FOR_EACH_RIG(r)
	{
		struct data d = data_new(&l);
		float *w = random_floats(N * K, 1.0f, 7), *got = malloc(d.nout * sizeof(float));
		void *x = rig_act(&r, d.x, d.nx);
		const struct op_matrix matrix = {rig_act(&r, w, N * K), N, K, r.act};
		struct op_lora_linear one = pair(&r, &d, &l);
		double *wide_x = widen(d.x, d.nx), *a = widen(d.a, d.na), *b = widen(d.b, d.nb);
		double *want = malloc(d.nout * sizeof(double)),
		       *xa = malloc(d.nxa * sizeof(double));
		double share, most = 1e-30;

		reference(want, xa, wide_x, a, b, &l);
		for (size_t i = 0; i < d.nout; i++)
			most = fmax(most, fabs(want[i]));
		share = most;
		for (size_t i = 0; i < d.nout; i++)
			for (size_t k = 0; k < K; k++)
				want[i] += wide_x[i / N * K + k] * (double)w[i % N * K + k];
		for (size_t i = 0; i < d.nout; i++)
			most = fmax(most, fabs(want[i]));
		CHECK_MSG(share < most / 4, "the share is %g of %g", share, most);
		OK(op_lora(r.ctx, &one, 1, x, T, K));
		OK(op_linear(r.ctx, one.out, x, &matrix, NULL, true, T));
		rig_get_act(&r, got, one.out, d.nout);
		CHECK_NEAR(got, want, d.nout, act_tolerance(r.act, 0) * (1 + share / most) + 8e-6);
		free(w);
		free(got);
		free(wide_x);
		free(a);
		free(b);
		free(want);
		free(xa);
		data_free(&d);
		rig_clear(&r);
	}
}

TEST_MAIN(TEST_CASE(forward), TEST_CASE(backward), TEST_CASE(same_bits_twice),
    TEST_CASE(a_group_is_its_pairs), TEST_CASE(beside_a_linear_layer))
