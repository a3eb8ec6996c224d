/*
 * The low-rank pair beside a linear layer.
 *
 * Bounded by bytes more than by flops: with rank 8, every element of x, out and dout is used for 16
 * flops each time it comes from memory. So one pass over blocks of rows does everything that can be
 * done with a block while it is in the cache. The gradients of A and B are sums over all rows; each
 * thread takes a range of their columns (rows) over all tokens, so the order of a sum does not
 * depend on the number of threads.
 */
#include "kernels/element.h"
#include "kernels/gemm.h"

#include <omp.h>
#include <stdatomic.h>

enum {
	ROWS = 64,	/* of a block of one thread */
	GRAD_ROWS = 256 /* rows of x converted at a time for the gradient of A */
};

/* x rows [row, row+count) as float32. */
static const float *
rows_view(const struct op_context *ctx, float *buffer, const void *x, size_t row, size_t count,
    size_t width)
{
	return element_view(buffer, x, row * width, count * width, ctx->compute);
}

enum op_status
op_lora(struct op_context *ctx, float *out, float *xa, const void *x, const struct op_lora *lora,
    size_t tokens, size_t outputs, size_t inputs)
{
	size_t rank = lora->rank, blocks = div_up(tokens, ROWS);
	size_t each = ctx->compute == OP_F32 ? 0 : line_up(ROWS * inputs * sizeof(float));
	atomic_int failed = OP_OK;
	void *area;
	enum op_status status = op_scratch(ctx, &area, each * (size_t)ctx->threads);

	if (status != OP_OK)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t b = 0; b < blocks; b++) {
		size_t row = b * ROWS, m = size_min(ROWS, tokens - row);
		float *buffer = (float *)((char *)area + each * (size_t)omp_get_thread_num());
		const float *in = rows_view(ctx, buffer, x, row, m, inputs);
		struct gemm_shape down = {.m = m,
		    .n = rank,
		    .k = inputs,
		    .lda = inputs,
		    .ldb = inputs,
		    .ldc = rank,
		    .transpose_b = true};
		struct gemm_shape up = {.m = m,
		    .n = outputs,
		    .k = rank,
		    .lda = rank,
		    .ldb = rank,
		    .ldc = outputs,
		    .transpose_b = true};
		enum op_status s = gemm_f32(xa + row * rank, in, lora->a, &down, 1.0f, 0.0f);

		if (s == OP_OK)
			s = gemm_f32(
			    out + row * outputs, xa + row * rank, lora->b, &up, lora->scale, 1.0f);
		if (s != OP_OK)
			atomic_store(&failed, (int)s);
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the adapter failed");
	return OP_OK;
}

/* dxa (T, R) = scale dout . B; dx (T, K) += dxa . A: row by row. */
static enum op_status
backward_rows(struct op_context *ctx, float *dx, float *dxa, const float *dout,
    const struct op_lora *lora, size_t tokens, size_t outputs, size_t inputs)
{
	size_t rank = lora->rank, blocks = div_up(tokens, ROWS);
	atomic_int failed = OP_OK;

#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t b = 0; b < blocks; b++) {
		size_t row = b * ROWS, m = size_min(ROWS, tokens - row);
		struct gemm_shape down = {
		    .m = m, .n = rank, .k = outputs, .lda = outputs, .ldb = rank, .ldc = rank};
		struct gemm_shape up = {
		    .m = m, .n = inputs, .k = rank, .lda = rank, .ldb = inputs, .ldc = inputs};
		enum op_status s = gemm_f32(
		    dxa + row * rank, dout + row * outputs, lora->b, &down, lora->scale, 0.0f);

		if (s == OP_OK)
			s = gemm_f32(dx + row * inputs, dxa + row * rank, lora->a, &up, 1.0f, 1.0f);
		if (s != OP_OK)
			atomic_store(&failed, (int)s);
	}
	return (enum op_status)failed;
}

/* The range of n columns that thread i of count takes, in whole cache lines. */
static size_t
share(size_t n, size_t i, size_t count)
{
	return size_min(n, div_up(div_up(n, 16) * i, count) * 16);
}

/* da (R, K)[:, from..to) += dxa^T . x[:, from..to), in pieces of rows that are converted first. */
static enum op_status
gradient_a(const struct op_context *ctx, float *da, const float *dxa, const void *x, float *buffer,
    size_t rank, size_t tokens, size_t inputs, size_t from, size_t to)
{
	struct gemm_shape shape = {.m = rank,
	    .n = to - from,
	    .k = tokens,
	    .lda = rank,
	    .ldb = inputs,
	    .ldc = inputs,
	    .transpose_a = true};
	enum op_status status = OP_OK;

	if (ctx->compute == OP_F32)
		return gemm_f32(da + from, dxa, (const float *)x + from, &shape, 1.0f, 1.0f);
	shape.ldb = to - from;
	for (size_t t = 0; t < tokens && status == OP_OK; t += GRAD_ROWS) {
		shape.k = size_min(GRAD_ROWS, tokens - t);
		for (size_t i = 0; i < shape.k; i++)
			bf16_to_floats(buffer + i * (to - from),
			    (const uint16_t *)x + (t + i) * inputs + from, to - from);
		status = gemm_f32(da + from, dxa + t * rank, buffer, &shape, 1.0f, 1.0f);
	}
	return status;
}

enum op_status
op_lora_backward(struct op_context *ctx, float *dx, float *da, float *db, const float *dout,
    const void *x, const float *xa, const struct op_lora *lora, size_t tokens, size_t outputs,
    size_t inputs)
{
	size_t rank = lora->rank, threads = (size_t)ctx->threads;
	size_t head = line_up(tokens * rank * sizeof(float));
	size_t part = div_up(div_up(inputs, 16), threads) * 16;
	size_t each = ctx->compute == OP_F32 ? 0 : line_up(GRAD_ROWS * part * sizeof(float));
	atomic_int failed = OP_OK;
	void *area;
	float *dxa;
	enum op_status status = op_scratch(ctx, &area, head + each * threads);

	if (status != OP_OK)
		return status;
	dxa = area;
	failed = (int)backward_rows(ctx, dx, dxa, dout, lora, tokens, outputs, inputs);
#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t i = 0; i < threads; i++) {
		float *buffer = (float *)((char *)area + head + each * i);
		size_t n = share(outputs, i, threads), n_end = share(outputs, i + 1, threads);
		size_t k = share(inputs, i, threads), k_end = share(inputs, i + 1, threads);
		struct gemm_shape shape = {.m = n_end - n,
		    .n = rank,
		    .k = tokens,
		    .lda = outputs,
		    .ldb = rank,
		    .ldc = rank,
		    .transpose_a = true};
		enum op_status s = gemm_f32(db + n * rank, dout + n, xa, &shape, lora->scale, 1.0f);

		if (s == OP_OK && k < k_end)
			s = gradient_a(ctx, da, dxa, x, buffer, rank, tokens, inputs, k, k_end);
		if (s != OP_OK)
			atomic_store(&failed, (int)s);
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the adapter failed");
	return OP_OK;
}
