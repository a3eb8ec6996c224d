/* AdamW. Bytes bound: 16 read and 12 written for each parameter. */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

#include <math.h>

struct adamw_factors {
	float beta1, beta2, rest1, rest2, step, root, decay, epsilon, scale;
};

__global__ void
adamw_kernel(float *param, float *exp_avg, float *exp_avg_sq, const float *grad,
    struct adamw_factors f, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		float g = grad[i] * f.scale;
		float m = f.beta1 * exp_avg[i] + f.rest1 * g;
		float v = f.beta2 * exp_avg_sq[i] + f.rest2 * g * g;

		exp_avg[i] = m;
		exp_avg_sq[i] = v;
		param[i] = param[i] * f.decay - f.step * (m / (sqrtf(v) / f.root + f.epsilon));
	}
}

enum op_status
op_adamw(struct op_context *ctx, float *param, float *exp_avg, float *exp_avg_sq, const float *grad,
    const struct op_adamw *o, size_t n)
{
	struct adamw_factors f;

	/* The corrections in float64: 1 - 0.999^t has few good bits in float32 for small t. */
	f.beta1 = (float)o->beta1;
	f.beta2 = (float)o->beta2;
	f.rest1 = (float)(1.0 - o->beta1);
	f.rest2 = (float)(1.0 - o->beta2);
	f.step = (float)(o->learning_rate / (1.0 - pow(o->beta1, (double)o->step)));
	f.root = (float)sqrt(1.0 - pow(o->beta2, (double)o->step));
	f.decay = (float)(1.0 - o->learning_rate * o->weight_decay);
	f.epsilon = (float)o->epsilon;
	f.scale = (float)o->gradient_scale;
	if (n == 0)
		return OP_OK;
	return GPU_RUN(ctx, adamw_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, param, exp_avg,
	    exp_avg_sq, grad, f, n);
}
