/* SwiGLU: bytes bound (2 arrays in and 1 out forward, 3 in and 2 out backward). */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

__device__ __forceinline__ float
sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

template <typename A>
__global__ void
swiglu_kernel(A *out, const A *gate, const A *up, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		float g = load(gate, i);

		store(out, i, g * sigmoid(g) * load(up, i));
	}
}

/* silu'(g) = s (1 + g (1 - s)), s the sigmoid of g. dgate may be dout. */
template <typename A>
__global__ void
swiglu_backward_kernel(A *dgate, A *dup, const A *dout, const A *gate, const A *up, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		float d = load(dout, i), g = load(gate, i), s = sigmoid(g);

		store(dup, i, d * g * s);
		store(dgate, i, d * load(up, i) * s * (1.0f + g * (1.0f - s)));
	}
}

enum op_status
op_swiglu(struct op_context *ctx, void *out, const void *gate, const void *up, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, swiglu_kernel<bf16>, gpu_blocks(ctx, n), GPU_BLOCK, 0,
		    (bf16 *)out, (const bf16 *)gate, (const bf16 *)up, n);
	return GPU_RUN(ctx, swiglu_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0, (float *)out,
	    (const float *)gate, (const float *)up, n);
}

enum op_status
op_swiglu_backward(struct op_context *ctx, void *dgate, void *dup, const void *dout,
    const void *gate, const void *up, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, swiglu_backward_kernel<bf16>, gpu_blocks(ctx, n), GPU_BLOCK, 0,
		    (bf16 *)dgate, (bf16 *)dup, (const bf16 *)dout, (const bf16 *)gate,
		    (const bf16 *)up, n);
	return GPU_RUN(ctx, swiglu_backward_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0,
	    (float *)dgate, (float *)dup, (const float *)dout, (const float *)gate,
	    (const float *)up, n);
}
