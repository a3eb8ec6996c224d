/* Ops that read and write each element once: memory bandwidth is their bound. */
#include "kernels/gpu.h"
#include "kernels/vector.h"

template <int N>
__device__ __forceinline__ void
round_some(size_t i, bf16 *out, const float *in)
{
	store_some<N>(out, i, load_some<N>(in, i));
}

__global__ void
round_kernel(bf16 *out, const float *in, size_t n)
{
	GRID_ELEMENTS(4, aligned(out, in), n, round_some, out, in);
}

/* out may be branch. */
template <int N, typename A>
__device__ __forceinline__ void
add_some(size_t i, float *out, const float *in, const A *branch)
{
	floats<N> x = load_some<N>(in, i), y = load_some<N>(branch, i);

#pragma unroll
	for (int j = 0; j < N; j++)
		x.at[j] += y.at[j];
	store_some<N>(out, i, x);
}

template <typename A>
__global__ void
add_kernel(float *out, const float *in, const A *branch, size_t n)
{
	GRID_ELEMENTS(4, aligned(out, in, branch), n, add_some, out, in, branch);
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
	return GPU_RUN(
	    ctx, round_kernel, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0, (bf16 *)out, in, n);
}

enum op_status
op_add(struct op_context *ctx, float *out, const float *in, const void *branch, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, add_kernel<bf16>, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0,
		    out, in, (const bf16 *)branch, n);
	return GPU_RUN(ctx, add_kernel<float>, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0, out, in,
	    (const float *)branch, n);
}
