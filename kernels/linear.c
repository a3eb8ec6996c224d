/*
 * Linear layers with a frozen matrix, and the output head without its loss.
 *
 * A product's result is float32: where activations are bfloat16, it is made in scratch memory, some
 * rows at a time, and rounded from there.
 */
#include "kernels/element.h"
#include "kernels/gemm.h"

enum { WIDE = 32 << 20 }; /* bytes of results at a time */

static void
add_bias(struct op_context *ctx, float *out, const float *bias, size_t rows, size_t n)
{
#pragma omp parallel for num_threads(op_team(ctx, rows *n)) schedule(static)
	for (size_t t = 0; t < rows; t++) {
		float *row = out + t * n;

#pragma omp simd
		for (size_t i = 0; i < n; i++)
			row[i] += bias[i];
	}
}

/* Rows of n results at a time, and where they go. */
static enum op_status
wide_rows(struct op_context *ctx, void **wide, size_t *step, size_t rows, size_t n)
{
	*step = size_min(rows, size_max(64, WIDE / (n * sizeof(float))));
	return op_scratch(ctx, wide, *step * n * sizeof(float));
}

/* out (rows, n) act, from row `first` on, = or += wide. */
static void
put_rows(struct op_context *ctx, void *out, const float *wide, size_t first, size_t rows, size_t n,
    bool accumulate)
{
#pragma omp parallel for num_threads(op_team(ctx, rows *n)) schedule(static)
	for (size_t t = 0; t < rows; t++)
		element_put(out, (first + t) * n, wide + t * n, n, accumulate, ctx->compute);
}

enum op_status
op_linear(struct op_context *ctx, void *out, const void *x, const struct op_matrix *w,
    const float *bias, bool accumulate, size_t tokens)
{
	size_t n = w->rows, step = tokens;
	void *wide = out;
	enum op_status status = OP_OK;

	if (ctx->compute != OP_F32)
		status = wide_rows(ctx, &wide, &step, tokens, n);
	for (size_t t = 0; t < tokens && status == OP_OK; t += step) {
		size_t rows = size_min(step, tokens - t);

		status = gemm_forward(ctx, wide, n, element_at(x, t * w->cols, ctx->compute), w,
		    accumulate && wide == out, rows);
		if (status == OP_OK && bias != NULL)
			add_bias(ctx, wide, bias, rows, n);
		if (status == OP_OK && wide != out)
			put_rows(ctx, out, wide, t, rows, n, accumulate);
	}
	return status;
}

enum op_status
op_linear_backward(struct op_context *ctx, void *dx, const void *dout, const struct op_matrix *w,
    bool accumulate, size_t tokens)
{
	size_t step;
	void *wide;
	enum op_status status;

	if (ctx->compute == OP_F32)
		return gemm_backward(ctx, dx, dout, w, 0, w->rows, accumulate, tokens);
	status = wide_rows(ctx, &wide, &step, tokens, w->cols);
	for (size_t t = 0; t < tokens && status == OP_OK; t += step) {
		size_t rows = size_min(step, tokens - t);

		status = gemm_backward(ctx, wide, element_at(dout, t * w->rows, ctx->compute), w, 0,
		    w->rows, false, rows);
		if (status == OP_OK)
			put_rows(ctx, dx, wide, t, rows, w->cols, accumulate);
	}
	return status;
}

enum op_status
op_logits(struct op_context *ctx, float *out, const void *h, const struct op_matrix *w, size_t rows)
{
	return gemm_forward(ctx, out, w->rows, h, w, false, rows);
}
