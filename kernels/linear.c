/* Linear layers with a frozen matrix, and the output head without its loss. */
#include "kernels/gemm.h"

enum op_status
op_linear(struct op_context *ctx, float *out, const void *x, const struct op_matrix *w,
    const float *bias, size_t tokens)
{
	size_t n = w->rows;
	enum op_status status = gemm_forward(ctx, out, n, x, w, tokens);

	if (status != OP_OK || bias == NULL)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, tokens *n)) schedule(static)
	for (size_t t = 0; t < tokens; t++) {
		float *row = out + t * n;

#pragma omp simd
		for (size_t i = 0; i < n; i++)
			row[i] += bias[i];
	}
	return OP_OK;
}

enum op_status
op_linear_backward(struct op_context *ctx, float *dx, const void *dout, const struct op_matrix *w,
    bool accumulate, size_t tokens)
{
	return gemm_backward(ctx, dx, dout, w, 0, w->rows, accumulate, tokens);
}

enum op_status
op_logits(struct op_context *ctx, float *out, const void *h, const struct op_matrix *w, size_t rows)
{
	return gemm_forward(ctx, out, w->rows, h, w, rows);
}
