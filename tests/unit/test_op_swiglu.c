#include "kernels/exponential.h"
#include "tests/unit/op_test.h"

struct swiglu {
	size_t n;
	const float *dout;
};

/* x: gate (n), up (n). */
static double
loss(const double *x, const void *context)
{
	const struct swiglu *s = context;
	double sum = 0.0;

	for (size_t i = 0; i < s->n; i++)
		sum += (double)s->dout[i] * x[i] / (1.0 + exp(-x[i])) * x[s->n + i];
	return sum;
}

static const size_t sizes[] = {1, 7, 31, 1023, 1025};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

TEST(forward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i <= 2 * SIZES; i++) {
		size_t n = i < 2 * SIZES ? sizes[i % SIZES] : 40009;
		float *gate = random_floats(n, 9.0f, i), *up = random_floats(n, 2.0f, i + 9);
		float *got = malloc(n * sizeof(float));
		double *want = malloc(n * sizeof(double));
		void *device_gate, *device_up, *out;

		r.offset = i < SIZES ? 4 : 0;
		out = rig_alloc(&r, n * sizeof(float));
		if (n > 30) {
			gate[3] = -100.0f; /* its exponential overflows float32 */
			gate[4] = 100.0f;
		}
		device_gate = rig_act(&r, gate, n);
		device_up = rig_act(&r, up, n);
		for (size_t j = 0; j < n; j++)
			want[j] = (double)gate[j] / (1.0 + exp(-(double)gate[j])) * (double)up[j];
		OK(op_swiglu(r.ctx, out, device_gate, device_up, n));
		rig_get_act(&r, got, out, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, 5e-7));
		free(gate);
		free(up);
		free(got);
		free(want);
		rig_clear(&r);
	}
}

/* Tolerance 1e-6: a handful of float32 roundings; half a unit where bf16 comes out. dgate is once
   dout itself; each once with arrays that are not aligned. */
TEST(backward)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 4 * SIZES; i++) {
		size_t n = sizes[i % SIZES];
		float *x = random_floats(2 * n, 4.0f, i), *dout = random_floats(n, 1.0f, 8);
		float *got = malloc(n * sizeof(float));
		void *gate, *up, *device, *dgate, *dup;
		double *wide = malloc(2 * n * sizeof(double)),
		       *want = malloc(2 * n * sizeof(double));
		struct swiglu swiglu = {n, dout};

		r.offset = i < 2 * SIZES ? 4 : 0;
		gate = rig_act(&r, x, n), up = rig_act(&r, x + n, n);
		device = rig_act(&r, dout, n), dup = rig_act_nan(&r, n);
		dgate = i / SIZES % 2 ? rig_act_nan(&r, n) : device;
		for (size_t j = 0; j < 2 * n; j++)
			wide[j] = (double)x[j]; /* as it is rounded */
		/* Each element depends on its own alone: differentiate one by one. */
		for (size_t j = 0; j < n; j++) {
			struct swiglu one = {1, dout + j};
			double pair[2] = {wide[j], wide[n + j]}, gradient[2];

			differentiate(gradient, pair, 2, loss, &one);
			want[j] = gradient[0];
			want[n + j] = gradient[1];
		}
		CHECK(isfinite(loss(wide, &swiglu)));
		OK(op_swiglu_backward(r.ctx, dgate, dup, device, gate, up, n));
		rig_get_act(&r, got, dgate, n);
		CHECK_NEAR(got, want, n, act_tolerance(r.act, 1e-6));
		rig_get_act(&r, got, dup, n);
		CHECK_NEAR(got, want + n, n, act_tolerance(r.act, 1e-6));
		free(x);
		free(dout);
		free(got);
		free(wide);
		free(want);
		rig_clear(&r);
	}
}

/* Every 1009th float in the range, against the C library in float64: 1.1 units in the last place.
 */
TEST(exponential_accuracy)
{
	double worst = 0.0, at = 0.0;

	for (uint32_t bits = 0; bits < 0x42b0bd70; bits += 1009)
		for (int sign = 0; sign < 2; sign++) {
			float x = float_of_bits(bits | (sign ? 0x80000000u : 0));
			double want = exp((double)x);
			double unit, off;

			if (x < -87.3f)
				continue;
			unit = ldexp(1.0, ilogb(want) - 23);
			off = fabs((double)exponential(x) - want) / unit;
			if (off > worst)
				worst = off, at = (double)x;
		}
	CHECK_MSG(worst <= 1.1, "%.3f units at %g", worst, at);
}

TEST(exponential_ends)
{
	CHECK(exponential(0.0f) == 1.0f);
	CHECK(exponential(-200.0f) < 1.3e-38f && exponential(-200.0f) >= 0.0f);
	CHECK(exponential(-INFINITY) < 1.3e-38f);
	CHECK(isnan(exponential(NAN)));
	CHECK(sigmoid(0.0f) == 0.5f);
	CHECK(sigmoid(INFINITY) == 1.0f && sigmoid(200.0f) == 1.0f);
	CHECK(sigmoid(-INFINITY) < 1.3e-38f);
	CHECK(isnan(sigmoid(NAN)));
}

TEST_MAIN(TEST_CASE(forward), TEST_CASE(backward), TEST_CASE(exponential_accuracy),
    TEST_CASE(exponential_ends))
