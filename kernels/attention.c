/*
 * Causal attention, one task for each block of 64 queries of one head: scores against all keys of
 * the block by one product, softmax row by row, one product with the values. Exact softmax over the
 * whole row, no rescaling. Half of the last 64 keys of a block is computed and masked.
 */
#include "kernels/attention.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>

#include "kernels/element.h"
#include "kernels/exponential.h"
#include "kernels/gemm.h"

struct attention_block
attention_block(size_t start, size_t end, size_t index, size_t window)
{
	struct attention_block block = {.first = start + index * ATTENTION_ROWS, .key = start};

	block.rows = size_min(ATTENTION_ROWS, end - block.first);
	if (window != 0 && block.first - start >= window)
		block.key = block.first - window + 1;
	block.keys = block.first + block.rows - block.key;
	return block;
}

void
attention_range(
    const struct attention_block *block, size_t i, size_t window, size_t *from, size_t *to)
{
	size_t row = block->first + i;

	*to = row - block->key + 1;
	*from = window != 0 && *to > window ? *to - window : 0;
}

struct attention_view
attention_view(const struct op_context *ctx, float *buffer, const void *x, size_t first,
    size_t rows, size_t head, size_t heads, size_t head_dim)
{
	size_t stride = heads * head_dim, from = first * stride + head * head_dim;

	if (ctx->compute == OP_F32)
		return (struct attention_view){(const float *)x + from, stride};
	for (size_t i = 0; i < rows; i++)
		bf16_to_floats(
		    buffer + i * head_dim, (const uint16_t *)x + from + i * stride, head_dim);
	return (struct attention_view){buffer, head_dim};
}

size_t
attention_longest(const struct op_packing *packing)
{
	size_t longest = 0;

	for (size_t s = 0; s < packing->sequences; s++)
		longest = size_max(longest, packing->start[s + 1] - packing->start[s]);
	return longest;
}

enum op_status
attention_check(struct op_context *ctx, const struct op_attention_shape *shape)
{
	if (shape->kv_heads != 0 && shape->heads % shape->kv_heads == 0 && shape->head_dim != 0)
		return OP_OK;
	return op_fail(ctx, OP_UNSUPPORTED, "%zu heads over %zu key/value heads of %zu",
	    shape->heads, shape->kv_heads, shape->head_dim);
}

float
attention_softmax(float *scores, size_t from, size_t to, size_t keys, float *scale)
{
	float most = -INFINITY;
	double sum = 0.0;

#pragma omp simd reduction(max : most)
	for (size_t j = from; j < to; j++)
		most = most > scores[j] ? most : scores[j];
	/* Lanes of float32 over short pieces, the pieces in float64. */
	for (size_t i = from; i < to; i += ELEMENT_BLOCK) {
		size_t end = size_min(to, i + ELEMENT_BLOCK);
		float part = 0.0f;

#pragma omp simd reduction(+ : part)
		for (size_t j = i; j < end; j++) {
			float e = exponential(scores[j] - most);

			scores[j] = e;
			part += e;
		}
		sum += (double)part;
	}
	memset(scores, 0, from * sizeof(float));
	memset(scores + to, 0, (keys - to) * sizeof(float));
	*scale = (float)(1.0 / sum);
	return (float)((double)most + log(sum));
}

struct forward_area {
	float *scores; /* (64, keys) */
	float *out;    /* (64, E) */
	float *q, *k, *v;
};

static size_t
forward_area_cut(struct forward_area *area, const struct op_context *ctx, char *memory,
    size_t longest, size_t head_dim)
{
	size_t wide = ctx->compute == OP_BF16 ? head_dim * sizeof(float) : 0, at = 0;

	area->scores = (float *)memory;
	at += line_up(ATTENTION_ROWS * longest * sizeof(float));
	area->out = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * head_dim * sizeof(float));
	area->q = (float *)(memory + at);
	at += line_up(ATTENTION_ROWS * wide);
	area->k = (float *)(memory + at);
	at += line_up(longest * wide);
	area->v = (float *)(memory + at);
	return at + line_up(longest * wide);
}

static enum op_status
forward_block(const struct op_context *ctx, const struct forward_area *area, void *out, float *lse,
    const void *q, const void *k, const void *v, const struct op_attention_shape *shape,
    const struct attention_block *block, size_t head)
{
	size_t dim = shape->head_dim, kv = head / (shape->heads / shape->kv_heads);
	struct attention_view qs =
	    attention_view(ctx, area->q, q, block->first, block->rows, head, shape->heads, dim);
	struct attention_view ks =
	    attention_view(ctx, area->k, k, block->key, block->keys, kv, shape->kv_heads, dim);
	struct attention_view vs =
	    attention_view(ctx, area->v, v, block->key, block->keys, kv, shape->kv_heads, dim);
	struct gemm_shape score = {.m = block->rows,
	    .n = block->keys,
	    .k = dim,
	    .lda = qs.stride,
	    .ldb = ks.stride,
	    .ldc = block->keys,
	    .transpose_b = true};
	struct gemm_shape value = {.m = block->rows,
	    .n = dim,
	    .k = block->keys,
	    .lda = block->keys,
	    .ldb = vs.stride,
	    .ldc = dim};
	float scale[ATTENTION_ROWS];
	enum op_status status =
	    gemm_f32(area->scores, qs.data, ks.data, &score, shape->scale, 0.0f);

	if (status != OP_OK)
		return status;
	for (size_t i = 0; i < block->rows; i++) {
		size_t from, to;

		attention_range(block, i, shape->window, &from, &to);
		lse[(block->first + i) * shape->heads + head] = attention_softmax(
		    area->scores + i * block->keys, from, to, block->keys, &scale[i]);
	}
	status = gemm_f32(area->out, area->scores, vs.data, &value, 1.0f, 0.0f);
	for (size_t i = 0; i < block->rows && status == OP_OK; i++) {
		float *row = area->out + i * dim;

#pragma omp simd
		for (size_t d = 0; d < dim; d++)
			row[d] *= scale[i];
		element_store(
		    out, ((block->first + i) * shape->heads + head) * dim, row, dim, ctx->compute);
	}
	return status;
}

enum op_status
op_attention(struct op_context *ctx, void *out, float *lse, const void *q, const void *k,
    const void *v, const struct op_packing *packing, const struct op_attention_shape *shape)
{
	size_t longest = attention_longest(packing), dim = shape->head_dim;
	size_t blocks = div_up(longest, ATTENTION_ROWS); /* of the longest: others have fewer */
	size_t tasks = packing->sequences * blocks * shape->heads;
	struct forward_area area;
	size_t each = forward_area_cut(&area, ctx, NULL, longest, dim);
	atomic_int failed = OP_OK;
	void *memory;
	enum op_status status = attention_check(ctx, shape);

	if (status == OP_OK)
		status = op_scratch(ctx, &memory, each * (size_t)ctx->threads);
	if (status != OP_OK)
		return status;
#pragma omp parallel num_threads(op_team(ctx, packing->tokens * shape->heads * dim)) private(area)
	{
		forward_area_cut(
		    &area, ctx, (char *)memory + each * (size_t)omp_get_thread_num(), longest, dim);
		/* Late blocks are the long ones: started first. Who computes one changes no bit. */
#pragma omp for schedule(dynamic)
		for (size_t task = 0; task < tasks; task++) {
			size_t head = task % shape->heads, rest = task / shape->heads;
			size_t s = rest % packing->sequences;
			size_t index = blocks - 1 - rest / packing->sequences;
			size_t start = packing->start[s], end = packing->start[s + 1];
			struct attention_block block;
			enum op_status st;

			if (index * ATTENTION_ROWS >= end - start)
				continue;
			block = attention_block(start, end, index, shape->window);
			st = forward_block(ctx, &area, out, lse, q, k, v, shape, &block, head);
			if (st != OP_OK)
				atomic_store(&failed, (int)st);
		}
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the attention failed");
	return OP_OK;
}
