/* Ops that read and write each element once: memory bandwidth is their bound. */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

__global__ void
round_kernel(bf16 *out, const float *in, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride())
		store(out, i, in[i]);
}

/* out may be branch. */
template <typename A>
__global__ void
add_kernel(float *out, const float *in, const A *branch, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride())
		out[i] = in[i] + load(branch, i);
}

enum op_status
op_round(struct op_context *ctx, void *out, const float *in, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_F32)
		return gpu_check(ctx,
		    cudaMemcpyAsync(
			out, in, n * sizeof(float), cudaMemcpyDeviceToDevice, ctx->stream),
		    "copy");
	return GPU_RUN(ctx, round_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, (bf16 *)out, in, n);
}

enum op_status
op_add(struct op_context *ctx, float *out, const float *in, const void *branch, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, add_kernel<bf16>, gpu_blocks(ctx, n), GPU_BLOCK, 0, out, in,
		    (const bf16 *)branch, n);
	return GPU_RUN(ctx, add_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0, out, in,
	    (const float *)branch, n);
}
