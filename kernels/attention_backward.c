/*
 * Backward of causal attention (Dao 2023, algorithm 2, without its inner blocks). One task for each
 * sequence and query head goes over its blocks of 64 queries in order:
 *
 *	P = exp(scale q k^T - lse)	dP = dout v^T	D = rowsum(dout * out)
 *	dS = scale P (dP - D)		dq = dS k	dk += dS^T q	dv += P^T dout
 *
 * dk and dv of a query head are its own and are summed over the heads of a group at the end, in
 * order: no task adds to what another one writes.
 */
#include "kernels/attention.h"

#include <omp.h>
#include <stdatomic.h>

#include "kernels/element.h"
#include "kernels/exponential.h"
#include "kernels/gemm.h"

struct backward_area {
	float *weights, *ds; /* (64, keys) */
	/* bfloat16 alone: */
	float *q, *out, *dout, *dq; /* (64, E) */
	float *k, *v;		    /* (longest, E) */
};

struct backward {
	void *dq;
	float *dk, *dv; /* (T, H, E): of each query head */
	const float *lse;
	const void *dout, *out, *q, *k, *v;
	const struct op_attention_shape *shape;
};

static size_t
backward_area_cut(struct backward_area *area, const struct op_context *ctx, char *memory,
    size_t longest, size_t head_dim)
{
	size_t wide = ctx->compute == OP_BF16 ? head_dim * sizeof(float) : 0, at = 0;
	size_t rows = line_up(ATTENTION_ROWS * longest * sizeof(float));

	area->weights = (float *)memory;
	at += rows;
	area->ds = (float *)(memory + at);
	at += rows;
	area->q = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * wide);
	area->out = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * wide);
	area->dout = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * wide);
	area->dq = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * wide);
	area->k = (float *)(memory + at);
	at += line_up(longest * wide);
	area->v = (float *)(memory + at);
	return at + line_up(longest * wide);
}

/* Scores to weights and dP to dS, one row. */
static void
backward_row(float *weights, float *ds, size_t from, size_t to, size_t keys, float lse, float delta,
    float scale)
{
#pragma omp simd
	for (size_t j = from; j < to; j++) {
		float p = exponential(weights[j] - lse);

		weights[j] = p;
		ds[j] = scale * p * (ds[j] - delta);
	}
	memset(weights, 0, from * sizeof(float));
	memset(weights + to, 0, (keys - to) * sizeof(float));
	memset(ds, 0, from * sizeof(float));
	memset(ds + to, 0, (keys - to) * sizeof(float));
}

/* The same for all rows of a block, with their D. */
static void
backward_weights(const struct backward *b, const struct backward_area *area,
    const struct attention_block *block, const struct attention_view *dout,
    const struct attention_view *out, size_t head)
{
	const struct op_attention_shape *shape = b->shape;
	size_t keys = block->keys;

	for (size_t i = 0; i < block->rows; i++) {
		const float *d = dout->data + i * dout->stride, *o = out->data + i * out->stride;
		float delta = 0.0f, lse = b->lse[(block->first + i) * shape->heads + head];
		size_t from, to;

#pragma omp simd reduction(+ : delta)
		for (size_t e = 0; e < shape->head_dim; e++)
			delta += d[e] * o[e];
		attention_range(block, i, shape->window, &from, &to);
		backward_row(area->weights + i * keys, area->ds + i * keys, from, to, keys, lse,
		    delta, shape->scale);
	}
}

static enum op_status
backward_block(const struct op_context *ctx, const struct backward *b,
    const struct backward_area *area, const struct attention_block *block,
    const struct attention_view *ks, const struct attention_view *vs, size_t head)
{
	const struct op_attention_shape *shape = b->shape;
	size_t dim = shape->head_dim, stride = shape->heads * dim, keys = block->keys;
	size_t at = block->first * stride + head * dim, key_at = block->key * stride + head * dim;
	const bool narrow = ctx->compute != OP_F32;
	float *dq_rows = narrow ? area->dq : (float *)b->dq + at;
	struct attention_view dout = attention_view(
	    ctx, area->dout, b->dout, block->first, block->rows, head, shape->heads, dim);
	struct attention_view qs =
	    attention_view(ctx, area->q, b->q, block->first, block->rows, head, shape->heads, dim);
	struct attention_view out = attention_view(
	    ctx, area->out, b->out, block->first, block->rows, head, shape->heads, dim);
	struct gemm_shape score = {.m = block->rows,
	    .n = keys,
	    .k = dim,
	    .lda = qs.stride,
	    .ldb = ks->stride,
	    .ldc = keys,
	    .transpose_b = true};
	struct gemm_shape dp = {.m = block->rows,
	    .n = keys,
	    .k = dim,
	    .lda = dout.stride,
	    .ldb = vs->stride,
	    .ldc = keys,
	    .transpose_b = true};
	struct gemm_shape dq = {.m = block->rows,
	    .n = dim,
	    .k = keys,
	    .lda = keys,
	    .ldb = ks->stride,
	    .ldc = narrow ? dim : stride};
	struct gemm_shape dk = {.m = keys,
	    .n = dim,
	    .k = block->rows,
	    .lda = keys,
	    .ldb = qs.stride,
	    .ldc = stride,
	    .transpose_a = true};
	struct gemm_shape dv = dk;
	enum op_status status;

	dv.ldb = dout.stride;
	status = gemm_f32(area->weights, qs.data, ks->data, &score, shape->scale, 0.0f);
	if (status == OP_OK)
		status = gemm_f32(area->ds, dout.data, vs->data, &dp, 1.0f, 0.0f);
	if (status == OP_OK) {
		backward_weights(b, area, block, &dout, &out, head);
		status = gemm_f32(dq_rows, area->ds, ks->data, &dq, 1.0f, 0.0f);
	}
	for (size_t i = 0; i < block->rows && narrow && status == OP_OK; i++)
		element_store(b->dq, at + i * stride, area->dq + i * dim, dim, ctx->compute);
	if (status == OP_OK)
		status = gemm_f32(b->dk + key_at, area->ds, qs.data, &dk, 1.0f, 1.0f);
	if (status == OP_OK)
		status = gemm_f32(b->dv + key_at, area->weights, dout.data, &dv, 1.0f, 1.0f);
	return status;
}

/* One sequence, one query head. */
static enum op_status
backward_head(const struct op_context *ctx, const struct backward *b,
    const struct backward_area *area, size_t start, size_t end, size_t head)
{
	const struct op_attention_shape *shape = b->shape;
	size_t dim = shape->head_dim, kv = head / (shape->heads / shape->kv_heads);
	struct attention_view ks =
	    attention_view(ctx, area->k, b->k, start, end - start, kv, shape->kv_heads, dim);
	struct attention_view vs =
	    attention_view(ctx, area->v, b->v, start, end - start, kv, shape->kv_heads, dim);
	enum op_status status = OP_OK;

	for (size_t t = start; t < end; t++) {
		memset(b->dk + (t * shape->heads + head) * dim, 0, dim * sizeof(float));
		memset(b->dv + (t * shape->heads + head) * dim, 0, dim * sizeof(float));
	}
	for (size_t i = 0; i * ATTENTION_ROWS < end - start && status == OP_OK; i++) {
		struct attention_block block = attention_block(start, end, i, shape->window);
		struct attention_view k = {ks.data + (block.key - start) * ks.stride, ks.stride};
		struct attention_view v = {vs.data + (block.key - start) * vs.stride, vs.stride};

		status = backward_block(ctx, b, area, &block, &k, &v, head);
	}
	return status;
}

/* out (T, G, E) act = in (T, H, E) summed, in place, over the H/G heads of a group. */
static void
sum_groups(const struct op_context *ctx, void *out, float *in, size_t tokens,
    const struct op_attention_shape *shape)
{
	size_t group = shape->heads / shape->kv_heads, dim = shape->head_dim;

#pragma omp parallel for num_threads(op_team(ctx, tokens * shape->heads * dim)) schedule(static)
	for (size_t r = 0; r < tokens * shape->kv_heads; r++) {
		float *sum = in + r * group * dim;

		for (size_t h = 1; h < group; h++) {
#pragma omp simd
			for (size_t e = 0; e < dim; e++)
				sum[e] += sum[h * dim + e];
		}
		element_store(out, r * dim, sum, dim, ctx->compute);
	}
}

enum op_status
op_attention_backward(struct op_context *ctx, void *dq, void *dk, void *dv, const void *dout,
    const void *out, const float *lse, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct op_attention_shape *shape)
{
	size_t longest = attention_longest(packing), dim = shape->head_dim;
	size_t heads = line_up(packing->tokens * shape->heads * dim * sizeof(float));
	size_t tasks = packing->sequences * shape->heads;
	struct backward_area area;
	size_t each = backward_area_cut(&area, ctx, NULL, longest, dim);
	struct backward b = {
	    .dq = dq, .dout = dout, .lse = lse, .out = out, .q = q, .k = k, .v = v, .shape = shape};
	atomic_int failed = OP_OK;
	void *memory;
	enum op_status status = attention_check(ctx, shape);

	if (status == OP_OK)
		status = op_scratch(ctx, &memory, 2 * heads + each * (size_t)ctx->threads);
	if (status != OP_OK)
		return status;
	b.dk = memory;
	b.dv = (float *)((char *)memory + heads);
#pragma omp parallel num_threads(op_team(ctx, packing->tokens * shape->heads * dim)) private(area)
	{
		backward_area_cut(&area, ctx,
		    (char *)memory + 2 * heads + each * (size_t)omp_get_thread_num(), longest, dim);
#pragma omp for schedule(dynamic)
		for (size_t task = 0; task < tasks; task++) {
			size_t s = task / shape->heads, head = task % shape->heads;
			enum op_status st = backward_head(
			    ctx, &b, &area, packing->start[s], packing->start[s + 1], head);

			if (st != OP_OK)
				atomic_store(&failed, (int)st);
		}
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the attention failed");
	sum_groups(ctx, dk, b.dk, packing->tokens, shape);
	sum_groups(ctx, dv, b.dv, packing->tokens, shape);
	return OP_OK;
}
