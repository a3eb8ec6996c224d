/* AdamW. Bytes bound: 16 read and 12 written for each parameter. */
#include "kernels/context.h"

#include <math.h>

enum op_status
op_adamw(struct op_context *ctx, float *param, float *exp_avg, float *exp_avg_sq, const float *grad,
    const struct op_adamw *o, size_t n)
{
	/* The corrections in float64: 1 - 0.999^t has few good bits in float32 for small t. */
	double correction1 = 1.0 - pow(o->beta1, (double)o->step);
	double correction2 = 1.0 - pow(o->beta2, (double)o->step);
	float step = (float)(o->learning_rate / correction1);
	float root = (float)sqrt(correction2);
	float decay = (float)(1.0 - o->learning_rate * o->weight_decay);
	float beta1 = (float)o->beta1, beta2 = (float)o->beta2, epsilon = (float)o->epsilon;
	float rest1 = (float)(1.0 - o->beta1), rest2 = (float)(1.0 - o->beta2);
	float scale = (float)o->gradient_scale;

#pragma omp parallel for simd num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i++) {
		float g = grad[i] * scale;
		float m = beta1 * exp_avg[i] + rest1 * g;
		float v = beta2 * exp_avg_sq[i] + rest2 * g * g;

		exp_avg[i] = m;
		exp_avg_sq[i] = v;
		param[i] = param[i] * decay - step * (m / (sqrtf(v) / root + epsilon));
	}
	return OP_OK;
}
