#include "kernels/gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/element.h"
#include "kernels/matmul.h"

enum {
	ACTIVATION_PANEL = 8 << 20, /* bytes of converted activations at a time */
	WEIGHT_PANEL = 4 << 20,	    /* bytes of converted weights: with the above it fits the L3 */
	WIDE = 4096,		    /* rows of W from which on it is multiplied in pieces of */
	WIDE_PIECE = 512,	    /* that many: the library packs W again for each row block */
};

enum op_status
gemm_f32(
    float *c, const float *a, const float *b, const struct gemm_shape *s, float alpha, float beta)
{
	dnnl_status_t status;

	if (s->m == 0 || s->n == 0)
		return OP_OK;
	status = dnnl_sgemm(s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N',
	    (dnnl_dim_t)s->m, (dnnl_dim_t)s->n, (dnnl_dim_t)s->k, alpha, a, (dnnl_dim_t)s->lda, b,
	    (dnnl_dim_t)s->ldb, beta, c, (dnnl_dim_t)s->ldc);
	if (status == dnnl_success)
		return OP_OK;
	return status == dnnl_out_of_memory ? OP_NO_MEMORY : OP_DEVICE_FAULT;
}

size_t
gemm_stride(const struct op_context *ctx, size_t n)
{
	/* Rows a multiple of 4 KiB apart fall into the same cache sets; the primitives for bfloat16
	   want them dense. */
	return ctx->native_bf16 || n % 1024 != 0 ? n : n + 16;
}

/* What the multiplying code takes. */
static enum op_dtype
operand_type(const struct op_context *ctx)
{
	return ctx->native_bf16 ? OP_BF16 : OP_F32;
}

/* out (n) operand type = in (n), rounded to the type the context computes in. */
static void
convert(const struct op_context *ctx, void *out, const void *in, enum op_dtype type, size_t n)
{
	enum op_dtype to = operand_type(ctx);
	bool round = ctx->compute == OP_BF16 && type == OP_F32;

#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK) {
		size_t count = size_min(ELEMENT_BLOCK, n - i);
		float wide[ELEMENT_BLOCK];
		uint16_t narrow[ELEMENT_BLOCK];
		const float *block = element_view(wide, in, i, count, type);

		if (round && to == OP_F32) {
			bf16_of_floats(narrow, block, count);
			bf16_to_floats((float *)out + i, narrow, count);
		} else {
			element_store(out, i, block, count, to);
		}
	}
}

static enum op_status
product(struct op_context *ctx, float *c, const void *a, const void *b,
    const struct gemm_shape *shape, bool accumulate)
{
	struct matmul_shape bf16;
	enum op_status status;

	if (!ctx->native_bf16) {
		status = gemm_f32(c, a, b, shape, 1.0f, accumulate ? 1.0f : 0.0f);
	} else {
		bf16 = (struct matmul_shape){.m = shape->m,
		    .n = shape->n,
		    .k = shape->k,
		    .lda = shape->lda,
		    .ldb = shape->ldb,
		    .ldc = shape->ldc,
		    .transpose_b = shape->transpose_b,
		    .accumulate = accumulate,
		    .dtype = OP_BF16};
		status = matmul_run(ctx->matmul, c, a, b, &bf16);
	}
	if (status != OP_OK)
		return op_fail(ctx, status, "a matrix product of %zu x %zu x %zu failed", shape->m,
		    shape->n, shape->k);
	return OP_OK;
}

/* How a product is cut: into `tokens` rows of activations and `rows` rows of W at a time, and where
   those that need converting go. */
struct cut {
	size_t tokens, rows;
	void *activations, *weights; /* NULL: used where they are */
};

static enum op_status
cut_make(struct op_context *ctx, struct cut *cut, const struct op_matrix *w, size_t rows,
    size_t tokens, size_t width)
{
	size_t size = element_size(operand_type(ctx));
	bool direct_x = ctx->compute == operand_type(ctx);
	bool direct_w = direct_x && w->dtype == ctx->compute;
	size_t x_bytes, w_bytes;
	void *area;
	enum op_status status;

	cut->tokens =
	    direct_x ? tokens : size_min(tokens, size_max(16, ACTIVATION_PANEL / (size * width)));
	if (!direct_w)
		cut->rows = size_min(rows, size_max(16, WEIGHT_PANEL / (size * w->cols)));
	else
		cut->rows = ctx->native_bf16 || rows <= WIDE ? rows : WIDE_PIECE;
	x_bytes = direct_x ? 0 : line_up(cut->tokens * width * size);
	w_bytes = direct_w ? 0 : cut->rows * w->cols * size;
	status = op_panel(ctx, &area, x_bytes + w_bytes);
	cut->activations = direct_x ? NULL : area;
	cut->weights = direct_w ? NULL : (char *)area + x_bytes;
	return status;
}

static const void *
cut_activations(struct op_context *ctx, const struct cut *cut, const void *x, size_t token,
    size_t tokens, size_t width)
{
	const void *part = element_at(x, token * width, ctx->compute);

	if (cut->activations == NULL)
		return part;
	convert(ctx, cut->activations, part, ctx->compute, tokens * width);
	return cut->activations;
}

static const void *
cut_weights(struct op_context *ctx, const struct cut *cut, const struct op_matrix *w, size_t row,
    size_t rows)
{
	const void *part = element_at(w->data, row * w->cols, w->dtype);

	if (cut->weights == NULL)
		return part;
	convert(ctx, cut->weights, part, w->dtype, rows * w->cols);
	return cut->weights;
}

enum op_status
gemm_forward(struct op_context *ctx, float *out, size_t stride, const void *x,
    const struct op_matrix *w, bool accumulate, size_t tokens)
{
	size_t width = w->cols;
	struct cut cut;
	enum op_status status = cut_make(ctx, &cut, w, w->rows, tokens, width);

	for (size_t t = 0; t < tokens && status == OP_OK; t += cut.tokens) {
		size_t m = size_min(cut.tokens, tokens - t);
		const void *a = cut_activations(ctx, &cut, x, t, m, width);

		for (size_t r = 0; r < w->rows && status == OP_OK; r += cut.rows) {
			size_t n = size_min(cut.rows, w->rows - r);
			const void *b = cut_weights(ctx, &cut, w, r, n);
			struct gemm_shape shape = {.m = m,
			    .n = n,
			    .k = width,
			    .lda = width,
			    .ldb = width,
			    .ldc = stride,
			    .transpose_b = true};

			status = product(ctx, out + t * stride + r, a, b, &shape, accumulate);
		}
	}
	return status;
}

enum op_status
gemm_backward(struct op_context *ctx, float *dx, const void *d, const struct op_matrix *w,
    size_t row, size_t rows, bool accumulate, size_t tokens)
{
	size_t width = w->cols;
	struct cut cut;
	enum op_status status = cut_make(ctx, &cut, w, rows, tokens, rows);

	/* Native products take the gradient's rows dense, so all of W's rows at once. */
	for (size_t t = 0; t < tokens && status == OP_OK; t += cut.tokens) {
		size_t m = size_min(cut.tokens, tokens - t);
		const void *a = cut_activations(ctx, &cut, d, t, m, rows);

		for (size_t r = 0; r < rows && status == OP_OK; r += cut.rows) {
			size_t k = size_min(cut.rows, rows - r);
			const void *b = cut_weights(ctx, &cut, w, row + r, k);
			const void *part = element_at(a, r, operand_type(ctx));
			struct gemm_shape shape = {
			    .m = m, .n = width, .k = k, .lda = rows, .ldb = width, .ldc = width};

			status = product(ctx, dx + t * width, part, b, &shape, accumulate || r > 0);
		}
	}
	return status;
}
