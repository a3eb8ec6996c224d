/* Linear layers with a frozen matrix, and the output head without its loss. */
#include "kernels/blas.h"
#include "kernels/lanes.h"

template <typename A>
__global__ void
bias_kernel(A *out, const float *bias, size_t width, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride())
		store(out, i, load(out, i) + bias[i % width]);
}

enum op_status
op_linear(struct op_context *ctx, void *out, const void *x, const struct op_matrix *w,
    const float *bias, bool accumulate, size_t tokens)
{
	size_t n = tokens * w->rows;

	GPU_TRY(blas_forward(ctx, out, ctx->compute, x, w, accumulate, tokens));
	if (bias == NULL || n == 0)
		return OP_OK;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, bias_kernel<bf16>, gpu_blocks(ctx, n), GPU_BLOCK, 0,
		    (bf16 *)out, bias, w->rows, n);
	return GPU_RUN(ctx, bias_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0, (float *)out,
	    bias, w->rows, n);
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
