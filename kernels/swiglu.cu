/* SwiGLU: bytes bound (2 arrays in and 1 out forward, 3 in and 2 out backward). */
#include "kernels/gpu.h"
#include "kernels/vector.h"

__device__ __forceinline__ float
sigmoid(float x)
{
	return __fdividef(1.0f, 1.0f + expf(-x)); /* 0 from -87 down, where it is 1e-38 */
}

template <int N, typename A>
__device__ __forceinline__ void
swiglu_some(size_t i, A *out, const A *gate, const A *up)
{
	floats<N> g = load_some<N>(gate, i), u = load_some<N>(up, i), y;

#pragma unroll
	for (int j = 0; j < N; j++)
		y.at[j] = g.at[j] * sigmoid(g.at[j]) * u.at[j];
	store_some<N>(out, i, y);
}

template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK, 6) swiglu_kernel(A *out, const A *gate, const A *up, size_t n)
{
	constexpr int N = in_vector<A>::count;

	GRID_ELEMENTS(N, aligned(out, gate, up), n, swiglu_some, out, gate, up);
}

/* silu'(g) = s (1 + g (1 - s)), s the sigmoid of g. dgate may be dout. */
template <int N, typename A>
__device__ __forceinline__ void
swiglu_backward_some(size_t i, A *dgate, A *dup, const A *dout, const A *gate, const A *up)
{
	floats<N> d = load_some<N>(dout, i), g = load_some<N>(gate, i), u = load_some<N>(up, i);
	floats<N> dg, du;

#pragma unroll
	for (int j = 0; j < N; j++) {
		float s = sigmoid(g.at[j]);

		du.at[j] = d.at[j] * g.at[j] * s;
		dg.at[j] = d.at[j] * u.at[j] * s * (1.0f + g.at[j] * (1.0f - s));
	}
	store_some<N>(dup, i, du);
	store_some<N>(dgate, i, dg);
}

template <typename A>
__global__ void
swiglu_backward_kernel(A *dgate, A *dup, const A *dout, const A *gate, const A *up, size_t n)
{
	constexpr int N = in_vector<A>::count;

	GRID_ELEMENTS(N, aligned(dgate, dup, dout, gate, up), n, swiglu_backward_some, dgate, dup,
	    dout, gate, up);
}

enum op_status
op_swiglu(struct op_context *ctx, void *out, const void *gate, const void *up, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, swiglu_kernel<bf16>, gpu_blocks(ctx, div_up(n, 8)), GPU_BLOCK,
		    0, (bf16 *)out, (const bf16 *)gate, (const bf16 *)up, n);
	return GPU_RUN(ctx, swiglu_kernel<float>, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0,
	    (float *)out, (const float *)gate, (const float *)up, n);
}

enum op_status
op_swiglu_backward(struct op_context *ctx, void *dgate, void *dup, const void *dout,
    const void *gate, const void *up, size_t n)
{
	if (n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, swiglu_backward_kernel<bf16>, gpu_blocks(ctx, div_up(n, 8)),
		    GPU_BLOCK, 0, (bf16 *)dgate, (bf16 *)dup, (const bf16 *)dout,
		    (const bf16 *)gate, (const bf16 *)up, n);
	return GPU_RUN(ctx, swiglu_backward_kernel<float>, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK,
	    0, (float *)dgate, (float *)dup, (const float *)dout, (const float *)gate,
	    (const float *)up, n);
}
