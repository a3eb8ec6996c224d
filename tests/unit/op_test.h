/*
 * For tests of ops: a context with its device memory, random values, and comparing with float64.
 *
 * Host arrays are float32; what goes to the device as activations is rounded to the context's type
 * on the host too, so that the reference sees the same values. References are written in float64,
 * from the formula, in each test file; gradients are checked by central differences of the
 * float64 reference, not by a second derivation.
 */
#ifndef TESTS_UNIT_OP_TEST_H
#define TESTS_UNIT_OP_TEST_H

#include <math.h>

#include "kernels/bf16.h"
#include "kernels/ops.h"
#include "tests/unit/test.h"

enum { RIG_OWNED = 64 };

struct rig {
	struct op_context *ctx;
	enum op_dtype act;
	int threads;
	void *owned[RIG_OWNED]; /* device memory */
	size_t count;
	size_t offset; /* bytes by which what rig_alloc gives lies behind an aligned address */
};

#define OK(call)                                                                                   \
	do {                                                                                       \
		enum op_status ok_status = (call);                                                 \
		CHECK_MSG(ok_status == OP_OK, "status %d", (int)ok_status);                        \
	} while (0)

/* 1 where the test is linked with CUDA's ops, which do not use the host's threads. */
#ifndef RIG_CUDA
#define RIG_CUDA 0
#endif
enum { RIG_THREADS = RIG_CUDA ? 1 : 2 };

/* The body once for each element type and number of threads. */
#define FOR_EACH_RIG(r)                                                                            \
	for (int rig_i = 0; rig_i < 2 * RIG_THREADS; rig_i++)                                      \
		for (struct rig r = rig_open(rig_i % 2 ? OP_BF16 : OP_F32, 1 + rig_i / 2);         \
		     r.ctx != NULL; rig_close(&r))

static inline struct rig
rig_open(enum op_dtype act, int threads)
{
	struct rig r = {.act = act, .threads = threads};
	struct op_options options = {.compute = act, .threads = threads};

	OK(op_open(&r.ctx, &options));
	return r;
}

/* Frees the memory, keeps the context. */
static inline void
rig_clear(struct rig *r)
{
	while (r->count > 0)
		OK(op_free(r->ctx, r->owned[--r->count]));
}

/* What an op refuses, at once or when the device has got there. */
static inline enum op_status
rig_refused(struct rig *r, enum op_status status)
{
	return status == OP_OK ? op_sync(r->ctx) : status;
}

static inline void
rig_close(struct rig *r)
{
	rig_clear(r);
	op_close(r->ctx);
	r->ctx = NULL;
}

static inline void *
rig_alloc(struct rig *r, size_t bytes)
{
	if (r->count == RIG_OWNED)
		abort();
	OK(op_alloc(r->ctx, &r->owned[r->count], bytes + r->offset));
	return (char *)r->owned[r->count++] + r->offset;
}

/* n float32 on the device; NULL: filled with NaN, so that `=` cannot be `+=`. */
static inline float *
rig_f32(struct rig *r, const float *host, size_t n)
{
	float *device = rig_alloc(r, n * sizeof(float));
	float *nan = host == NULL ? malloc(n * sizeof(float) + 1) : NULL;

	for (size_t i = 0; host == NULL && i < n; i++)
		nan[i] = NAN;
	OK(op_upload(r->ctx, device, host != NULL ? host : nan, n * sizeof(float)));
	free(nan);
	return device;
}

static inline int32_t *
rig_i32(struct rig *r, const int32_t *host, size_t n)
{
	int32_t *device = rig_alloc(r, n * sizeof(int32_t));

	OK(op_upload(r->ctx, device, host, n * sizeof(int32_t)));
	return device;
}

static inline void
round_to(float *host, size_t n, enum op_dtype type)
{
	for (size_t i = 0; i < n && type == OP_BF16; i++)
		host[i] = bf16_to_float(bf16_of_float(host[i]));
}

/* n elements of `type` on the device; host is rounded to that type as well. */
static inline void *
rig_typed(struct rig *r, float *host, size_t n, enum op_dtype type)
{
	uint16_t *narrow;
	void *device;

	if (type == OP_F32)
		return rig_f32(r, host, n);
	narrow = malloc(n * sizeof(*narrow) + 1);
	for (size_t i = 0; i < n; i++)
		narrow[i] = bf16_of_float(host[i]);
	round_to(host, n, type);
	device = rig_alloc(r, n * sizeof(*narrow));
	OK(op_upload(r->ctx, device, narrow, n * sizeof(*narrow)));
	free(narrow);
	return device;
}

static inline void *
rig_act(struct rig *r, float *host, size_t n)
{
	return rig_typed(r, host, n, r->act);
}

/* n of the activation type, filled with NaN. */
static inline void *
rig_act_nan(struct rig *r, size_t n)
{
	float *nan = malloc(n * sizeof(float) + 1);
	void *device;

	for (size_t i = 0; i < n; i++)
		nan[i] = NAN;
	device = rig_act(r, nan, n);
	free(nan);
	return device;
}

static inline void
rig_get(struct rig *r, float *host, const float *device, size_t n)
{
	OK(op_download(r->ctx, host, device, n * sizeof(float)));
}

static inline void
rig_get_act(struct rig *r, float *host, const void *device, size_t n)
{
	uint16_t *narrow;

	if (r->act == OP_F32) {
		rig_get(r, host, device, n);
		return;
	}
	narrow = malloc(n * sizeof(*narrow) + 1);
	OK(op_download(r->ctx, narrow, device, n * sizeof(*narrow)));
	for (size_t i = 0; i < n; i++)
		host[i] = bf16_to_float(narrow[i]);
	free(narrow);
}

/* Uniform in (-scale, scale), from a small generator of its own. */
static inline void
fill(float *x, size_t n, float scale, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		x[i] = ((float)(state >> 40) / 8388608.0f - 1.0f) * scale;
	}
}

static inline float *
random_floats(size_t n, float scale, uint64_t seed)
{
	float *x = malloc(n * sizeof(float) + 1);

	fill(x, n, scale, seed);
	return x;
}

/* Greatest difference over the greatest wanted value (at least `most`, for what should be 0); NaN
   where a value is not finite. */
static inline double
distance_from(const float *got, const double *want, size_t n, double most)
{
	double off = 0.0;

	for (size_t i = 0; i < n; i++) {
		double difference = fabs((double)got[i] - want[i]);

		if (!(difference <= off))
			off = difference; /* also where it is NaN, which then stays */
		if (isnan(off))
			return NAN;
		most = fmax(most, fabs(want[i]));
	}
	return off / most;
}

static inline double
distance(const float *got, const double *want, size_t n)
{
	return distance_from(got, want, n, 1e-30);
}

#define CHECK_NEAR(got, want, n, tolerance)                                                        \
	do {                                                                                       \
		double near_off = distance(got, want, n);                                          \
		CHECK_MSG(near_off <= (tolerance), "off by %.3g, %s, line of %zu", near_off, #got, \
		    (size_t)(n));                                                                  \
	} while (0)

/* What a test of gradients differentiates: the sum of weight * output for inputs x (n). */
typedef double loss_function(const double *x, const void *context);

/* Of the loss by x[i], by central differences in float64. */
static inline double
derivative(double *x, size_t i, loss_function *loss, const void *context)
{
	double old = x[i], step = 1e-5, up, down;

	x[i] = old + step;
	up = loss(x, context);
	x[i] = old - step;
	down = loss(x, context);
	x[i] = old;
	return (up - down) / (2.0 * step);
}

/* gradient (n) of loss at x. */
static inline void
differentiate(double *gradient, double *x, size_t n, loss_function *loss, const void *context)
{
	for (size_t i = 0; i < n; i++)
		gradient[i] = derivative(x, i, loss, context);
}

/* How many derivatives of an array are taken: each costs two forward passes. OP_TEST_SAMPLES is for
   runs that look for something else than wrong gradients. */
static inline size_t
gradient_samples(void)
{
	const char *text = getenv("OP_TEST_SAMPLES");

	return text != NULL ? (size_t)atoi(text) : 41;
}

/* got (n) against before (n, or NULL for 0) + some of the derivatives by x[first .. first+n-1]. The
   tolerance is of the greatest gradient. */
static inline void
check_gradient(const char *what, const float *got, const float *before, double *x, size_t first,
    size_t n, loss_function *loss, const void *context, double tolerance)
{
	double want[100], off, most = 0.1;
	float some[100];
	size_t count = 0;

	for (size_t i = 0; i < n; i += 1 + n / gradient_samples(), count++) {
		want[count] = derivative(x, first + i, loss, context);
		want[count] += before != NULL ? (double)before[i] : 0.0;
		some[count] = got[i];
	}
	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)got[i]));
	off = distance_from(some, want, count, most);
	CHECK_MSG(off <= tolerance, "%s off by %.3g, at most %.3g", what, off, tolerance);
	for (size_t i = 0; i < n; i++)
		if (!isfinite(got[i])) {
			CHECK_MSG(isfinite(got[i]), "%s[%zu]", what, i);
			break;
		}
}

static inline double *
widen(const float *x, size_t n)
{
	double *wide = malloc(n * sizeof(double) + 1);

	for (size_t i = 0; i < n; i++)
		wide[i] = (double)x[i];
	return wide;
}

/* Half a unit in the last place of the activation type, and what float32 sums may add. */
static inline double
act_tolerance(enum op_dtype act, double f32)
{
	return act == OP_BF16 ? 0.00391 + f32 : f32;
}

#endif
