/*
 * Rotary embedding. A thread computes the sine and cosine of one pair of one token, which cost more
 * than the rotation, and turns that pair in every head. The accurate sincosf: angles reach the
 * length of the context.
 */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

template <typename A>
__global__ void
rope_kernel(A *x, const int32_t *position, const float *frequency, size_t half, float magnitude,
    float sign, size_t heads, size_t head_dim, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t t = i / half, d = i % half;
		float angle = frequency[d] * (float)position[t], sine, cosine;
		A *pair = x + t * heads * head_dim + d;

		sincosf(angle, &sine, &cosine);
		sine *= sign * magnitude;
		cosine *= magnitude;
		for (size_t h = 0; h < heads; h++, pair += head_dim) {
			float a = load(pair, 0), b = load(pair, half);

			store(pair, 0, a * cosine - b * sine);
			store(pair, half, b * cosine + a * sine);
		}
	}
}

enum op_status
op_rope(struct op_context *ctx, void *x, const struct op_packing *packing, const float *frequency,
    size_t half, float magnitude, bool backward, size_t heads, size_t head_dim)
{
	size_t n = packing->tokens * half;
	float sign = backward ? -1.0f : 1.0f;

	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, rope_kernel<bf16>, gpu_blocks(ctx, n), GPU_BLOCK, 0, (bf16 *)x,
		    packing->position, frequency, half, magnitude, sign, heads, head_dim, n);
	return GPU_RUN(ctx, rope_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0, (float *)x,
	    packing->position, frequency, half, magnitude, sign, heads, head_dim, n);
}
