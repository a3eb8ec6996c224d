#include "tests/unit/op_test.h"

static const size_t sizes[] = {0, 1, 7, 31, 1025, 16384, 16385, 100003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Tolerance 1e-13: everything is float64. The order does not depend on the threads either. */
TEST(sum_squares)
{
	double by_threads[RIG_THREADS][2 * SIZES];

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i % SIZES];
		float *x = random_floats(n, 100.0f, i), *device;
		double want = 0.0, got, again;

		r.offset = i < SIZES ? 0 : 4; /* aligned, and not */
		device = rig_f32(&r, x, n);
		for (size_t j = 0; j < n; j++)
			want += (double)x[j] * (double)x[j];
		OK(op_sum_squares(r.ctx, &got, device, n));
		OK(op_sum_squares(r.ctx, &again, device, n));
		CHECK_MSG(fabs(got - want) <= 1e-13 * want, "%zu: %g, want %g", n, got, want);
		CHECK(memcmp(&got, &again, sizeof(got)) == 0);
		by_threads[r.threads - 1][i] = got;
		free(x);
		rig_clear(&r);
	}
	CHECK(memcmp(by_threads[0], by_threads[RIG_THREADS - 1], sizeof(by_threads[0])) == 0);
}

/* Squares that overflow float32 do not. */
TEST(sum_squares_is_wide)
{
	struct rig r = rig_open(OP_F32, 1);
	float x[2] = {1e30f, 1e-30f};
	double got;

	OK(op_sum_squares(r.ctx, &got, rig_f32(&r, x, 2), 2));
	CHECK(fabs(got - (double)1e30f * (double)1e30f) < 1e46);
	rig_close(&r);
}

TEST(first_nonfinite)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 2 * SIZES; i++) {
		size_t n = sizes[i % SIZES], index = 12345;
		float *x = random_floats(n, 3e38f, i), *device;

		r.offset = i < SIZES ? 0 : 4;
		device = rig_f32(&r, x, n);
		OK(op_first_nonfinite(r.ctx, &index, device, n));
		CHECK_MSG(index == n, "%zu of %zu", index, n);
		for (size_t k = 0; k < 12 && n > 0; k++) {
			size_t first = k == 0 ? 0 : k == 1 ? n - 1 : k * 7919 % n;
			size_t later = first + (n - first) / 2;

			x[first] = bad[k % 3];
			x[later] = bad[(k + 1) % 3];
			OK(op_upload(r.ctx, device, x, n * sizeof(float)));
			OK(op_first_nonfinite(r.ctx, &index, device, n));
			CHECK_MSG(index == first, "%zu, want %zu of %zu", index, first, n);
			x[first] = x[later] = 3.4028235e38f; /* the greatest finite one */
		}
		free(x);
		rig_clear(&r);
	}
}

TEST_MAIN(TEST_CASE(sum_squares), TEST_CASE(sum_squares_is_wide), TEST_CASE(first_nonfinite))
