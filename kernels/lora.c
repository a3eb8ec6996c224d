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
	GRAD_ROWS = 256 /* rows converted at a time for the gradients of A and B */
};

/* A block of one thread: rows of x or dx, and of out or dout. */
struct block {
	size_t row, rows;
	float *in, *out; /* (ROWS, K), (ROWS, N): float32 of what is bfloat16, else unused */
};

static size_t
block_bytes(const struct op_context *ctx, size_t outputs, size_t inputs)
{
	if (ctx->compute == OP_F32)
		return 0;
	return line_up(ROWS * inputs * sizeof(float)) + line_up(ROWS * outputs * sizeof(float));
}

/* Block `index`, with the calling thread's part of `area`. */
static struct block
block_at(const struct op_context *ctx, void *area, size_t index, size_t tokens, size_t outputs,
    size_t inputs)
{
	char *own = (char *)area + block_bytes(ctx, outputs, inputs) * (size_t)omp_get_thread_num();

	return (struct block){.row = index * ROWS,
	    .rows = size_min(ROWS, tokens - index * ROWS),
	    .in = (float *)own,
	    .out = (float *)(own + line_up(ROWS * inputs * sizeof(float)))};
}

/* to (rows, n) act, from row `row` on, = or += alpha left (rows, R) . right; right as in `shape`.
 */
static enum op_status
put_product(const struct op_context *ctx, void *to, float *buffer, const struct block *b,
    const float *left, const float *right, const struct gemm_shape *shape, float alpha,
    bool accumulate)
{
	size_t n = shape->n, at = b->row * n;
	enum op_status status;

	if (ctx->compute == OP_F32)
		return gemm_f32(
		    (float *)to + at, left, right, shape, alpha, accumulate ? 1.0f : 0.0f);
	status = gemm_f32(buffer, left, right, shape, alpha, 0.0f);
	if (status == OP_OK)
		element_put(to, at, buffer, b->rows * n, accumulate, ctx->compute);
	return status;
}

static enum op_status
forward(struct op_context *ctx, const struct op_lora_linear *l, const void *x, size_t tokens,
    size_t inputs)
{
	const struct op_lora *lora = &l->lora;
	size_t rank = lora->rank, outputs = l->outputs, blocks = div_up(tokens, ROWS);
	float *xa = l->xa;
	atomic_int failed = OP_OK;
	void *area;
	enum op_status status =
	    op_scratch(ctx, &area, block_bytes(ctx, outputs, inputs) * (size_t)ctx->threads);

	if (status != OP_OK)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t i = 0; i < blocks; i++) {
		struct block b = block_at(ctx, area, i, tokens, outputs, inputs);
		const float *in =
		    element_view(b.in, x, b.row * inputs, b.rows * inputs, ctx->compute);
		struct gemm_shape down = {.m = b.rows,
		    .n = rank,
		    .k = inputs,
		    .lda = inputs,
		    .ldb = inputs,
		    .ldc = rank,
		    .transpose_b = true};
		struct gemm_shape up = {.m = b.rows,
		    .n = outputs,
		    .k = rank,
		    .lda = rank,
		    .ldb = rank,
		    .ldc = outputs,
		    .transpose_b = true};
		enum op_status s = gemm_f32(xa + b.row * rank, in, lora->a, &down, 1.0f, 0.0f);

		if (s == OP_OK)
			s = put_product(ctx, l->out, b.out, &b, xa + b.row * rank, lora->b, &up,
			    lora->scale, false);
		if (s != OP_OK)
			atomic_store(&failed, (int)s);
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the adapter failed");
	return OP_OK;
}

enum op_status
op_lora(struct op_context *ctx, const struct op_lora_linear *group, size_t count, const void *x,
    size_t tokens, size_t inputs)
{
	enum op_status status = OP_OK;

	for (size_t i = 0; i < count && status == OP_OK; i++)
		status = forward(ctx, &group[i], x, tokens, inputs);
	return status;
}

/* dxa (T, R) = scale dout . B; dx (T, K) = or += dxa . A, unless it is NULL: row by row. */
static enum op_status
backward_rows(struct op_context *ctx, void *dx, bool accumulate, float *dxa, const void *dout,
    void *area, const struct op_lora *lora, size_t tokens, size_t outputs, size_t inputs)
{
	size_t rank = lora->rank, blocks = div_up(tokens, ROWS);
	atomic_int failed = OP_OK;

#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t i = 0; i < blocks; i++) {
		struct block b = block_at(ctx, area, i, tokens, outputs, inputs);
		const float *d =
		    element_view(b.out, dout, b.row * outputs, b.rows * outputs, ctx->compute);
		struct gemm_shape down = {
		    .m = b.rows, .n = rank, .k = outputs, .lda = outputs, .ldb = rank, .ldc = rank};
		struct gemm_shape up = {
		    .m = b.rows, .n = inputs, .k = rank, .lda = rank, .ldb = inputs, .ldc = inputs};
		enum op_status s =
		    gemm_f32(dxa + b.row * rank, d, lora->b, &down, lora->scale, 0.0f);

		if (s == OP_OK && dx != NULL)
			s = put_product(
			    ctx, dx, b.in, &b, dxa + b.row * rank, lora->a, &up, 1.0f, accumulate);
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

/* One thread's part of a gradient: columns [from, to) of x (T, width) act against small (T, R). */
struct part {
	const void *x;
	size_t width, from, to;
	const float *small;
	size_t rank, tokens;
	float *buffer; /* (GRAD_ROWS, to - from) */
};

/* da (R, width)[:, from..to) += small^T . x, or, where `by_rows`, d (width, R)[from..to) += alpha
   x^T . small; in pieces of rows, which are converted first. */
static enum op_status
gradient(const struct op_context *ctx, float *d, const struct part *p, bool by_rows, float alpha)
{
	const size_t n = p->to - p->from;
	const size_t step = ctx->compute == OP_F32 ? p->tokens : GRAD_ROWS;
	struct gemm_shape s = {.transpose_a = true};
	enum op_status status = OP_OK;

	for (size_t t = 0; t < p->tokens && status == OP_OK && n != 0; t += step) {
		const float *x = (const float *)p->x + p->from, *small = p->small + t * p->rank;
		size_t stride = p->width;

		s.k = size_min(step, p->tokens - t);
		if (ctx->compute != OP_F32) {
			for (size_t i = 0; i < s.k; i++)
				bf16_to_floats(p->buffer + i * n,
				    (const uint16_t *)p->x + (t + i) * p->width + p->from, n);
			x = p->buffer;
			stride = n;
		}
		s.m = by_rows ? n : p->rank;
		s.n = by_rows ? p->rank : n;
		s.lda = by_rows ? stride : p->rank;
		s.ldb = by_rows ? p->rank : stride;
		s.ldc = by_rows ? p->rank : p->width;
		if (by_rows)
			status = gemm_f32(d + p->from * p->rank, x, small, &s, alpha, 1.0f);
		else
			status = gemm_f32(d + p->from, small, x, &s, alpha, 1.0f);
	}
	return status;
}

static enum op_status
backward(struct op_context *ctx, void *dx, bool accumulate, const struct op_lora_linear *l,
    const void *x, size_t tokens, size_t inputs)
{
	const struct op_lora *lora = &l->lora;
	size_t rank = lora->rank, outputs = l->outputs, threads = (size_t)ctx->threads;
	size_t head = line_up(tokens * rank * sizeof(float));
	size_t columns = div_up(div_up(size_max(outputs, inputs), 16), threads) * 16;
	size_t part = ctx->compute == OP_F32 ? 0 : line_up(GRAD_ROWS * columns * sizeof(float));
	size_t each = size_max(part, block_bytes(ctx, outputs, inputs));
	atomic_int failed = OP_OK;
	void *area;
	float *dxa;
	enum op_status status = op_scratch(ctx, &area, head + each * threads);

	if (status != OP_OK)
		return status;
	dxa = area;
	failed = (int)backward_rows(
	    ctx, dx, accumulate, dxa, l->dout, (char *)area + head, lora, tokens, outputs, inputs);
#pragma omp parallel for num_threads(op_team(ctx, tokens *(inputs + outputs))) schedule(static)
	for (size_t i = 0; i < threads; i++) {
		float *buffer = (float *)((char *)area + head + part * i);
		const struct part b = {l->dout, outputs, share(outputs, i, threads),
		    share(outputs, i + 1, threads), l->xa, rank, tokens, buffer};
		const struct part a = {x, inputs, share(inputs, i, threads),
		    share(inputs, i + 1, threads), dxa, rank, tokens, buffer};
		enum op_status s = gradient(ctx, l->db, &b, true, lora->scale);

		if (s == OP_OK)
			s = gradient(ctx, l->da, &a, false, 1.0f);
		if (s != OP_OK)
			atomic_store(&failed, (int)s);
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the adapter failed");
	return OP_OK;
}

enum op_status
op_lora_backward(struct op_context *ctx, void *dx, const struct op_lora_linear *group, size_t count,
    const void *x, size_t tokens, size_t inputs)
{
	enum op_status status = OP_OK;

	for (size_t i = 0; i < count && status == OP_OK; i++)
		status = backward(ctx, dx, i > 0, &group[i], x, tokens, inputs);
	return status;
}
