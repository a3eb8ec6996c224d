/*
 * Rotary embedding. A thread computes the sine and cosine of one pair of one token, which cost more
 * than the rotation, and turns that pair in every head. The accurate sincosf: angles reach the
 * length of the context.
 */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

__global__ void
rope_kernel(float *x, const int32_t *position, const float *frequency, size_t half, float magnitude,
    float sign, size_t heads, size_t head_dim, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t t = i / half, d = i % half;
		float angle = frequency[d] * (float)position[t], sine, cosine;
		float *pair = x + t * heads * head_dim + d;

		sincosf(angle, &sine, &cosine);
		sine *= sign * magnitude;
		cosine *= magnitude;
		for (size_t h = 0; h < heads; h++, pair += head_dim) {
			float a = pair[0], b = pair[half];

			pair[0] = a * cosine - b * sine;
			pair[half] = b * cosine + a * sine;
		}
	}
}

enum op_status
op_rope(struct op_context *ctx, float *x, const struct op_packing *packing, const float *frequency,
    size_t half, float magnitude, bool backward, size_t heads, size_t head_dim)
{
	size_t n = packing->tokens * half;

	if (n == 0)
		return OP_OK;
	return GPU_RUN(ctx, rope_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, x, packing->position,
	    frequency, half, magnitude, backward ? -1.0f : 1.0f, heads, head_dim, n);
}
