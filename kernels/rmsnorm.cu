/* RMSNorm. One block a row, which it reads twice: the second time from the cache. */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) rmsnorm_kernel(A *out, float *rstd, const float *x,
    const float *weight, float epsilon, float one, size_t width)
{
	__shared__ float part[GPU_BLOCK / 32];
	const float *row = x + blockIdx.x * width;
	float sum = 0.0f, scale;

	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK)
		sum += row[i] * row[i];
	sum = block_sum<GPU_BLOCK>(sum, part);
	scale = 1.0f / sqrtf(sum / (float)width + epsilon);
	if (threadIdx.x == 0)
		rstd[blockIdx.x] = scale;
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK)
		store(out, blockIdx.x * width + i, row[i] * scale * (one + weight[i]));
}

/* With y = x r and g = dout w: dx += r (g - y mean(g y)). narrow may be NULL, or dout. */
template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) rmsnorm_backward_kernel(float *dx, A *narrow, const A *dout,
    const float *x, const float *weight, const float *rstd, float one, size_t width)
{
	__shared__ float part[GPU_BLOCK / 32];
	const float *row = x + blockIdx.x * width;
	const A *d = dout + blockIdx.x * width;
	float *to = dx + blockIdx.x * width;
	float r = rstd[blockIdx.x], sum = 0.0f, mean;

	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK)
		sum += load(d, i) * (one + weight[i]) * row[i];
	mean = block_sum<GPU_BLOCK>(sum, part) * r / (float)width;
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK) {
		float after = to[i] + r * (load(d, i) * (one + weight[i]) - row[i] * r * mean);

		to[i] = after;
		if (narrow != NULL)
			store(narrow, blockIdx.x * width + i, after);
	}
}

enum op_status
op_rmsnorm(struct op_context *ctx, void *out, float *rstd, const float *x, const float *weight,
    float epsilon, bool one_plus, size_t tokens, size_t width)
{
	float one = one_plus ? 1.0f : 0.0f;

	if (tokens == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, rmsnorm_kernel<bf16>, (unsigned)tokens, GPU_BLOCK, 0,
		    (bf16 *)out, rstd, x, weight, epsilon, one, width);
	return GPU_RUN(ctx, rmsnorm_kernel<float>, (unsigned)tokens, GPU_BLOCK, 0, (float *)out,
	    rstd, x, weight, epsilon, one, width);
}

enum op_status
op_rmsnorm_backward(struct op_context *ctx, float *dx, void *narrow, const void *dout,
    const float *x, const float *weight, const float *rstd, bool one_plus, size_t tokens,
    size_t width)
{
	float one = one_plus ? 1.0f : 0.0f;

	if (tokens == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, rmsnorm_backward_kernel<bf16>, (unsigned)tokens, GPU_BLOCK, 0,
		    dx, (bf16 *)narrow, (const bf16 *)dout, x, weight, rstd, one, width);
	return GPU_RUN(ctx, rmsnorm_backward_kernel<float>, (unsigned)tokens, GPU_BLOCK, 0, dx,
	    (float *)narrow, (const float *)dout, x, weight, rstd, one, width);
}
