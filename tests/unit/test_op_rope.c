#include "tests/unit/op_test.h"

struct shape {
	size_t heads, head_dim, half;
	bool wide; /* positions far beyond the number of tokens */
};

/* Whole vectors of either type and not, part of a head, more pairs than a block has for a token. */
static const struct shape shapes[] = {{1, 2, 1, false}, {3, 10, 5, false}, {9, 64, 32, false},
    {2, 66, 11, false}, {3, 64, 32, true}, {7, 26, 13, true}, {2, 80, 16, false}, {1, 12, 4, false},
    {2, 304, 136, true}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]), TOKENS = 37 };

/* Pair (d, d+half) is turned by frequency[d] * p, an angle that is taken in float32, as the
   models were trained; the sines of it are exact. */
static void
reference(double *x, const int32_t *position, const float *frequency, double magnitude, double sign,
    const struct shape *s)
{
	for (size_t t = 0; t < TOKENS; t++)
		for (size_t h = 0; h < s->heads; h++)
			for (size_t d = 0; d < s->half; d++) {
				double *pair = x + (t * s->heads + h) * s->head_dim + d;
				double angle = (double)(frequency[d] * (float)position[t]);
				double c = cos(angle), n = sign * sin(angle);
				double a = pair[0], b = pair[s->half];

				pair[0] = magnitude * (a * c - b * n);
				pair[s->half] = magnitude * (b * c + a * n);
			}
}

/* Tolerance 3e-7: two float32 products and the float32 sines; half a unit where bf16 comes out. */
TEST(forward_and_backward)
{
	static const uint32_t start[] = {0, 1, 20, TOKENS};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 3 * SHAPES; i++) {
		const struct shape *s = &shapes[i % SHAPES];
		bool backward = i / SHAPES == 1;
		size_t n = TOKENS * s->heads * s->head_dim;
		float *x = random_floats(n, 1.0f, i);
		void *device;
		double *want;
		float frequency[136];
		int32_t position[TOKENS];
		struct op_packing packing = {start, NULL, 3, TOKENS};

		r.offset = i < 2 * SHAPES ? 0 : 4; /* aligned, and not */
		device = rig_act(&r, x, n);
		want = widen(x, n);
		for (size_t q = 0; q < 3; q++)
			for (uint32_t t = start[q]; t < start[q + 1]; t++)
				position[t] = (int32_t)(t - start[q]) * (s->wide ? 977 : 1);
		for (size_t d = 0; d < s->half; d++)
			frequency[d] = (float)pow(10000.0, -(double)d / (double)s->half);
		packing.position = rig_i32(&r, position, TOKENS);
		reference(want, position, frequency, 1.25, backward ? -1.0 : 1.0, s);
		OK(op_rope(r.ctx, device, &packing, rig_f32(&r, frequency, s->half), s->half, 1.25f,
		    backward, s->heads, s->head_dim));
		rig_get_act(&r, x, device, n);
		CHECK_NEAR(x, want, n, act_tolerance(r.act, 3e-7));
		free(x);
		free(want);
		rig_clear(&r);
	}
}

/* backward is the transpose: <R x, y> = <x, R' y>. In bf16 2886 terms of about a third are off by
   up to half a unit, 2^-9, whose sum is about 0.02. */
TEST(backward_is_the_gradient)
{
	FOR_EACH_RIG(r)
	{
		static const uint32_t start[] = {0, TOKENS};
		size_t n = TOKENS * 3 * 26;
		float *x = random_floats(n, 1.0f, 1), *y = random_floats(n, 1.0f, 2);
		float *turned = malloc(2 * n * sizeof(float)), *back = turned + n;
		void *device_x = rig_act(&r, x, n), *device_y = rig_act(&r, y, n);
		float frequency[13];
		int32_t position[TOKENS];
		struct op_packing packing = {start, NULL, 1, TOKENS};
		double left = 0.0, right = 0.0;

		for (int32_t t = 0; t < TOKENS; t++)
			position[t] = t;
		fill(frequency, 13, 1.0f, 3);
		packing.position = rig_i32(&r, position, TOKENS);
		OK(op_rope(
		    r.ctx, device_x, &packing, rig_f32(&r, frequency, 13), 13, 0.7f, false, 3, 26));
		OK(op_rope(
		    r.ctx, device_y, &packing, rig_f32(&r, frequency, 13), 13, 0.7f, true, 3, 26));
		rig_get_act(&r, turned, device_x, n);
		rig_get_act(&r, back, device_y, n);
		for (size_t i = 0; i < n; i++) {
			left += (double)turned[i] * (double)y[i];
			right += (double)x[i] * (double)back[i];
		}
		CHECK_MSG(
		    fabs(left - right) < (r.act == OP_F32 ? 1e-5 : 0.1), "%g and %g", left, right);
		free(x);
		free(y);
		free(turned);
	}
}

TEST_MAIN(TEST_CASE(forward_and_backward), TEST_CASE(backward_is_the_gradient))
