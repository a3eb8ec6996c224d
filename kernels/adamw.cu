/* AdamW. Bytes bound: 16 read and 12 written for each parameter. */
#include "kernels/gpu.h"
#include "kernels/vector.h"

#include <math.h>

struct adamw_factors {
	float beta1, beta2, rest1, rest2, step, root, decay, epsilon, scale;
};

template <int N>
__device__ __forceinline__ void
adamw_some(size_t i, float *param, float *exp_avg, float *exp_avg_sq, const float *grad,
    const struct adamw_factors &f)
{
	floats<N> g = load_some<N>(grad, i), m = load_some<N>(exp_avg, i);
	floats<N> v = load_some<N>(exp_avg_sq, i), p = load_some<N>(param, i);

#pragma unroll
	for (int j = 0; j < N; j++) {
		float scaled = g.at[j] * f.scale;

		m.at[j] = f.beta1 * m.at[j] + f.rest1 * scaled;
		v.at[j] = f.beta2 * v.at[j] + f.rest2 * scaled * scaled;
		p.at[j] =
		    p.at[j] * f.decay - f.step * (m.at[j] / (sqrtf(v.at[j]) / f.root + f.epsilon));
	}
	store_some<N>(exp_avg, i, m);
	store_some<N>(exp_avg_sq, i, v);
	store_some<N>(param, i, p);
}

__global__ void
__launch_bounds__(GPU_BLOCK) adamw_kernel(float *param, float *exp_avg, float *exp_avg_sq,
    const float *grad, struct adamw_factors f, size_t n)
{
	GRID_ELEMENTS(4, aligned(param, exp_avg, exp_avg_sq, grad), n, adamw_some, param, exp_avg,
	    exp_avg_sq, grad, f);
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
	return GPU_RUN(ctx, adamw_kernel, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0, param,
	    exp_avg, exp_avg_sq, grad, f, n);
}
