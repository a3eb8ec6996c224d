/* Linear layers with a frozen matrix, and the output head without its loss. */
#include "kernels/blas.h"
#include "kernels/lanes.h"

__global__ void
bias_kernel(float *out, const float *bias, size_t width, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride())
		out[i] += bias[i % width];
}

enum op_status
op_linear(struct op_context *ctx, float *out, const void *x, const struct op_matrix *w,
    const float *bias, size_t tokens)
{
	size_t n = tokens * w->rows;

	GPU_TRY(blas_forward(ctx, out, w->rows, x, w, tokens));
	if (bias == NULL || n == 0)
		return OP_OK;
	return GPU_RUN(ctx, bias_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, out, bias, w->rows, n);
}

enum op_status
op_linear_backward(struct op_context *ctx, float *dx, const void *dout, const struct op_matrix *w,
    bool accumulate, size_t tokens)
{
	return blas_backward(ctx, dx, dout, w, 0, w->rows, accumulate, tokens);
}

enum op_status
op_logits(struct op_context *ctx, float *out, const void *h, const struct op_matrix *w, size_t rows)
{
	return blas_forward(ctx, out, w->rows, h, w, rows);
}
