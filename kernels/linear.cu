/* Linear layers with a frozen matrix, and the output head without its loss. */
#include "kernels/blas.h"
#include "kernels/vector.h"

enum { BIAS_BLOCK = 128 }; /* threads of a row */

template <int N, typename A>
__device__ __forceinline__ void
bias_some(size_t i, A *out, const float *bias)
{
	floats<N> x = load_some<N>(out, i), b = load_some<N>(bias, i);

#pragma unroll
	for (int j = 0; j < N; j++)
		x.at[j] += b.at[j];
	store_some<N>(out, i, x);
}

/* One block a row. */
template <typename A>
__global__ void
bias_kernel(A *out, const float *bias, size_t width)
{
	BLOCK_ELEMENTS(
	    4, whole_rows(width, out, bias), width, bias_some, out + blockIdx.x * width, bias);
}

enum op_status
op_linear(struct op_context *ctx, void *out, const void *x, const struct op_matrix *w,
    const float *bias, bool accumulate, size_t tokens)
{
	GPU_TRY(blas_forward(ctx, out, ctx->compute, x, w, accumulate, tokens));
	if (bias == NULL || tokens == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, bias_kernel<bf16>, (unsigned)tokens, BIAS_BLOCK, 0, (bf16 *)out,
		    bias, w->rows);
	return GPU_RUN(
	    ctx, bias_kernel<float>, (unsigned)tokens, BIAS_BLOCK, 0, (float *)out, bias, w->rows);
}

enum op_status
op_linear_backward(struct op_context *ctx, void *dx, const void *dout, const struct op_matrix *w,
    bool accumulate, size_t tokens)
{
	return blas_backward(ctx, dx, ctx->compute, dout, w, 0, w->rows, accumulate, tokens);
}

enum op_status
op_logits(struct op_context *ctx, float *out, const void *h, const struct op_matrix *w, size_t rows)
{
	return blas_forward(ctx, out, OP_F32, h, w, false, rows);
}
