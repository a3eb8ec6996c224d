#include "tests/unit/op_test.h"

/* Loshchilov and Hutter 2019, algorithm 2, one parameter, in float64. */
static void
reference(double *param, double *m, double *v, double g, const struct op_adamw *o)
{
	g *= o->gradient_scale;
	*m = o->beta1 * *m + (1.0 - o->beta1) * g;
	*v = o->beta2 * *v + (1.0 - o->beta2) * g * g;
	*param *= 1.0 - o->learning_rate * o->weight_decay;
	*param -= o->learning_rate * (*m / (1.0 - pow(o->beta1, (double)o->step))) /
		  (sqrt(*v / (1.0 - pow(o->beta2, (double)o->step))) + o->epsilon);
}

static const size_t sizes[] = {1, 7, 31, 1025, 40009};

/* Ten steps. Tolerance 1e-6 of the greatest: ten steps of two float32 roundings. */
TEST(ten_steps)
{
	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 9; i++) {
		size_t n = sizes[i % 5];
		float *param = random_floats(n, 1.0f, i), *got = malloc(n * sizeof(float));
		float *zero = calloc(n, sizeof(float)), *p, *m, *v, *g;
		double *want = widen(param, n), *wm = widen(zero, n), *wv = widen(zero, n);
		struct op_adamw o = {1e-2, 0.9, 0.999, 1e-8, 0.01, 0.5, 0};

		r.offset = i < 5 ? 0 : 4; /* aligned, and not */
		p = rig_f32(&r, param, n), m = rig_f32(&r, zero, n);
		v = rig_f32(&r, zero, n), g = rig_f32(&r, zero, n);
		for (o.step = 1; o.step <= 10; o.step++) {
			float *grad = random_floats(n, 1e-3f, o.step);

			OK(op_upload(r.ctx, g, grad, n * sizeof(float)));
			OK(op_adamw(r.ctx, p, m, v, g, &o, n));
			for (size_t j = 0; j < n; j++)
				reference(&want[j], &wm[j], &wv[j], (double)grad[j], &o);
			free(grad);
		}
		rig_get(&r, got, p, n);
		CHECK_NEAR(got, want, n, 1e-6);
		rig_get(&r, got, m, n);
		CHECK_NEAR(got, wm, n, 5e-7);
		rig_get(&r, got, v, n);
		CHECK_NEAR(got, wv, n, 5e-7);
		free(param);
		free(got);
		free(zero);
		free(want);
		free(wm);
		free(wv);
		rig_clear(&r);
	}
}

/* By hand: at the first step the corrected moments are g and g^2, so the update is the learning
   rate in the gradient's direction, whatever its size. */
TEST(first_step)
{
	struct rig r = rig_open(OP_F32, 1);
	float param[3] = {1.0f, 1.0f, 1.0f}, grad[3] = {1e-3f, -5.0f, 0.0f}, zero[3] = {0};
	struct op_adamw o = {0.1, 0.9, 0.999, 1e-12, 0.0, 1.0, 1};
	float *p = rig_f32(&r, param, 3);

	OK(op_adamw(
	    r.ctx, p, rig_f32(&r, zero, 3), rig_f32(&r, zero, 3), rig_f32(&r, grad, 3), &o, 3));
	rig_get(&r, param, p, 3);
	CHECK(fabsf(param[0] - 0.9f) < 1e-6f);
	CHECK(fabsf(param[1] - 1.1f) < 1e-6f);
	CHECK(param[2] == 1.0f);
	rig_close(&r);
}

TEST_MAIN(TEST_CASE(ten_steps), TEST_CASE(first_step))
