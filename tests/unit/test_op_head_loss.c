#include "tests/unit/op_test.h"

struct head {
	size_t rows, vocabulary, width;
	const float *w, *coefficient;
	const int32_t *targets;
};

static const struct head shapes[] = {{1, 1, 1, NULL, NULL, NULL}, {2, 7, 5, NULL, NULL, NULL},
    {13, 31, 16, NULL, NULL, NULL}, {67, 1024, 7, NULL, NULL, NULL},
    {5, 4099, 13, NULL, NULL, NULL}, {3, 12289, 31, NULL, NULL, NULL},
    {2, 16404, 3, NULL, NULL, NULL}, {2, 16401, 3, NULL, NULL, NULL}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static double
logit_of(const double *h, size_t m, const struct head *head, size_t v)
{
	double sum = 0.0;

	for (size_t d = 0; d < head->width; d++)
		sum += h[m * head->width + d] * (double)head->w[v * head->width + d];
	return sum;
}

/* log softmax of h . W^T at the target. */
static double
logp_of(const double *h, size_t m, const struct head *head)
{
	double most = -INFINITY, sum = 0.0, target = 0.0;
	double *logits = malloc(head->vocabulary * sizeof(double));

	for (size_t v = 0; v < head->vocabulary; v++) {
		logits[v] = logit_of(h, m, head, v);
		most = fmax(most, logits[v]);
	}
	for (size_t v = 0; v < head->vocabulary; v++)
		sum += exp(logits[v] - most);
	target = logits[head->targets[m]];
	free(logits);
	return target - most - log(sum);
}

/* Its gradient by h is coefficient * (softmax - onehot) . W. */
static double
loss(const double *h, const void *context)
{
	const struct head *head = context;
	double sum = 0.0;

	for (size_t m = 0; m < head->rows; m++)
		sum -= (double)head->coefficient[m] * logp_of(h, m, head);
	return sum;
}

/* Row m of dh: coefficient * (sum of softmax . W - W at the target). */
static void
gradient_of(double *dh, const double *h, size_t m, const struct head *head)
{
	const size_t target = (size_t)head->targets[m];
	const double all = logit_of(h, m, head, target) - logp_of(h, m, head);

	for (size_t d = 0; d < head->width; d++)
		dh[d] = -(double)head->w[target * head->width + d];
	for (size_t v = 0; v < head->vocabulary; v++)
		for (size_t d = 0; d < head->width; d++)
			dh[d] += exp(logit_of(h, m, head, v) - all) *
				 (double)head->w[v * head->width + d];
	for (size_t d = 0; d < head->width; d++)
		dh[d] *= (double)head->coefficient[m];
}

/* op_head_loss with logp on the host. */
static enum op_status
head_loss(struct rig *r, double *logp, float *dh, const void *h, const struct op_matrix *w,
    const int32_t *targets, const float *coefficient, size_t rows)
{
	double *device = rig_alloc(r, rows * sizeof(*logp));
	enum op_status status = op_head_loss(r->ctx, device, dh, h, w, targets, coefficient, rows);

	return status == OP_OK ? op_download(r->ctx, logp, device, rows * sizeof(*logp)) : status;
}

/* logp: absolute 1e-6 (logits up to 30 in float32 are the limit: the sum is in float64). dh:
   3e-6 in float32, 2^-8 where softmax - onehot is rounded to bfloat16 before the product. */
static void
check_shape(struct rig *r, struct head head, bool gradient)
{
	size_t n = head.rows * head.width, nw = head.vocabulary * head.width;
	float *h = random_floats(n, 2.0f, n), *w = random_floats(nw, 1.0f, 2);
	float *coefficient = random_floats(head.rows, 1.0f, 3), *got = malloc(n * sizeof(float));
	int32_t *targets = malloc(head.rows * sizeof(int32_t));
	void *device_h = rig_act(r, h, n);
	struct op_matrix m = {rig_typed(r, w, nw, r->act), head.vocabulary, head.width, r->act};
	float *dh = rig_f32(r, NULL, n);
	double *logp = malloc(head.rows * sizeof(double)), *wide;

	for (size_t i = 0; i < head.rows; i++)
		targets[i] = (int32_t)((i * 7919 + head.vocabulary - 1) % head.vocabulary);
	wide = widen(h, n);
	head.w = w;
	head.targets = targets;
	head.coefficient = coefficient;
	OK(head_loss(r, logp, gradient ? dh : NULL, device_h, &m, rig_i32(r, targets, head.rows),
	    gradient ? rig_f32(r, coefficient, head.rows) : NULL, head.rows));
	for (size_t i = 0; i < head.rows; i++) {
		double want = logp_of(wide, i, &head);

		CHECK_MSG(fabs(logp[i] - want) <= 1e-6 + 2e-7 * fabs(want),
		    "row %zu: %.9f, want %.9f", i, logp[i], want);
	}
	if (gradient) {
		rig_get(r, got, dh, n);
		check_gradient(
		    "dh", got, NULL, wide, 0, n, loss, &head, r->act == OP_BF16 ? 0.00391 : 3e-6);
	}
	free(h);
	free(w);
	free(coefficient);
	free(got);
	free(targets);
	free(logp);
	free(wide);
}

TEST(loss_and_gradient)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2 * SHAPES; i++) {
		check_shape(&r, shapes[i % SHAPES], i < SHAPES);
		rig_clear(&r);
	}
}

/* Uniform logits at the vocabulary of SmolLM2: -ln 49152, of which one lane of float32 loses 7e-6.
   Tolerance 1e-7: the logits are exact here. More rows than one chunk holds. */
TEST(sum_is_accurate)
{
	FOR_EACH_RIG(r)
	{
		size_t rows = 401, vocabulary = 49152;
		float *w = calloc(vocabulary, sizeof(float)), h[401];
		int32_t targets[401];
		struct op_matrix m = {NULL, vocabulary, 1, r.act};
		double logp[401], off = 0.0;

		for (size_t i = 0; i < rows; i++)
			h[i] = 1.0f, targets[i] = (int32_t)(i * 122);
		m.data = rig_typed(&r, w, vocabulary, r.act);
		OK(head_loss(&r, logp, NULL, rig_act(&r, h, rows), &m, rig_i32(&r, targets, rows),
		    NULL, rows));
		for (size_t i = 0; i < rows; i++)
			off = fmax(off, fabs(logp[i] + 10.802672816507344));
		CHECK_MSG(off <= 1e-7, "off by %g", off);
		free(w);
	}
}

/* Against float64 over random logits of the same size: 1e-6 a token. */
TEST(sum_is_accurate_over_random_logits)
{
	struct rig r = rig_open(OP_F32, 2);
	size_t rows = 3, vocabulary = 49152;
	float *w = random_floats(vocabulary, 9.0f, 1), h[3] = {1.0f, 0.5f, -0.25f};
	int32_t targets[3] = {5, 49151, 777};
	struct op_matrix m = {rig_f32(&r, w, vocabulary), vocabulary, 1, OP_F32};
	struct head head = {rows, vocabulary, 1, w, NULL, targets};
	double logp[3], wide[3] = {1.0, 0.5, -0.25};

	OK(head_loss(
	    &r, logp, NULL, rig_f32(&r, h, rows), &m, rig_i32(&r, targets, rows), NULL, rows));
	for (size_t i = 0; i < rows; i++)
		CHECK_MSG(fabs(logp[i] - logp_of(wide, i, &head)) <= 1e-7, "row %zu off by %g", i,
		    logp[i] - logp_of(wide, i, &head));
	free(w);
	rig_close(&r);
}

/* dh is small beside what its sums over the vocabulary pass: all of W is near 1. Tolerance 2e-6 of
   that, where one chain of 16,384 float32 sums is off by several. */
TEST(gradient_is_accurate_over_a_vocabulary)
{
	struct rig r = rig_open(OP_F32, 2);
	enum { ROWS = 2, WIDTH = 4, N = ROWS * WIDTH };
	const size_t vocabulary = 49152;
	float *w = random_floats(vocabulary * WIDTH, 0.01f, 1), *h = random_floats(N, 0.5f, 2);
	float coefficient[ROWS] = {1.0f, 1.0f}, got[N];
	int32_t targets[ROWS] = {49151, 20000};
	struct head head = {ROWS, vocabulary, WIDTH, w, coefficient, targets};
	struct op_matrix matrix = {NULL, vocabulary, WIDTH, OP_F32};
	double logp[ROWS], *wide = widen(h, N), worst = 0.0;
	float *dh = rig_f32(&r, NULL, N);

	for (size_t i = 0; i < vocabulary * WIDTH; i++)
		w[i] += 1.0f;
	matrix.data = rig_f32(&r, w, vocabulary * WIDTH);
	OK(head_loss(&r, logp, dh, rig_f32(&r, h, N), &matrix, rig_i32(&r, targets, ROWS),
	    rig_f32(&r, coefficient, ROWS), ROWS));
	rig_get(&r, got, dh, N);
	for (size_t m = 0; m < ROWS; m++) {
		double want[WIDTH];

		gradient_of(want, wide, m, &head);
		for (size_t d = 0; d < WIDTH; d++)
			worst = fmax(worst, fabs(got[m * WIDTH + d] - want[d]));
	}
	CHECK_MSG(worst <= 2e-6, "off by %g", worst);
	free(w);
	free(h);
	free(wide);
	rig_close(&r);
}

/* A chunk more or less changes no bit of a row, and a second run none at all. */
TEST(same_bits_twice)
{
	FOR_EACH_RIG(r)
	{
		size_t rows = 400, vocabulary = 49152, width = 8;
		float *w = random_floats(vocabulary * width, 1.0f, 1);
		float *h = random_floats(rows * width, 1.0f, 2),
		      *coefficient = random_floats(rows, 1, 3);
		float *got[2] = {malloc(rows * width * 4), malloc(rows * width * 4)};
		int32_t *targets = calloc(rows, sizeof(int32_t));
		struct op_matrix m = {
		    rig_typed(&r, w, vocabulary * width, r.act), vocabulary, width, r.act};
		void *device_h = rig_act(&r, h, rows * width);
		int32_t *device_targets = rig_i32(&r, targets, rows);
		float *device_coefficient = rig_f32(&r, coefficient, rows);
		float *dh = rig_f32(&r, NULL, rows * width);
		double logp[2][400];

		for (int i = 0; i < 2; i++) {
			OK(head_loss(&r, logp[i], dh, device_h, &m, device_targets,
			    device_coefficient, rows));
			rig_get(&r, got[i], dh, rows * width);
		}
		CHECK(memcmp(got[0], got[1], rows * width * sizeof(float)) == 0);
		CHECK(memcmp(logp[0], logp[1], sizeof(logp[0])) == 0);
		free(w);
		free(h);
		free(coefficient);
		free(got[0]);
		free(got[1]);
		free(targets);
	}
}

TEST(refuses_targets)
{
	struct rig r = rig_open(OP_F32, 1);
	float x[6] = {0};
	struct op_matrix m = {rig_f32(&r, x, 6), 3, 2, OP_F32};
	double logp[1];

	for (int i = 0; i < 2; i++)
		CHECK(rig_refused(&r, head_loss(&r, logp, NULL, m.data, &m,
					  rig_i32(&r, (int32_t[]){i == 0 ? 3 : -1}, 1), NULL, 1)) ==
		      OP_UNSUPPORTED);
	CHECK(rig_refused(&r, head_loss(&r, logp, NULL, m.data, &m, rig_i32(&r, (int32_t[]){2}, 1),
				  NULL, 1)) == OP_OK);
	OK(head_loss(&r, logp, NULL, m.data, &m, rig_i32(&r, (int32_t[]){2}, 1), NULL, 0));
	rig_close(&r);
}

/* Logits that overflow must be seen as such, not as a number. */
TEST(not_finite_stays)
{
	struct rig r = rig_open(OP_F32, 1);
	float w[3] = {1.0f, 2.0f, 3.0f}, h[2] = {INFINITY, NAN};
	struct op_matrix m = {rig_f32(&r, w, 3), 3, 1, OP_F32};
	double logp[2];

	OK(head_loss(
	    &r, logp, NULL, rig_f32(&r, h, 2), &m, rig_i32(&r, (int32_t[]){0, 1}, 2), NULL, 2));
	CHECK(!isfinite(logp[0]));
	CHECK(!isfinite(logp[1]));
	rig_close(&r);
}

TEST_MAIN(TEST_CASE(loss_and_gradient), TEST_CASE(sum_is_accurate),
    TEST_CASE(sum_is_accurate_over_random_logits),
    TEST_CASE(gradient_is_accurate_over_a_vocabulary), TEST_CASE(same_bits_twice),
    TEST_CASE(refuses_targets), TEST_CASE(not_finite_stays))
