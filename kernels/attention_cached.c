/*
 * Attention of one new token over a cache of keys and values. One task for each key/value head does
 * the query heads of its group; the bound is reading the cache once.
 */
#include "kernels/attention.h"

#include <omp.h>
#include <stdatomic.h>

#include "kernels/element.h"
#include "kernels/gemm.h"

struct cached_area {
	float *scores;	/* (H/G, keys) */
	float *q, *out; /* (H/G, E) */
	float *k, *v;	/* (keys, E) */
};

static size_t
cached_area_cut(struct cached_area *area, const struct op_context *ctx, char *memory, size_t keys,
    const struct op_attention_shape *shape)
{
	size_t group = shape->heads / shape->kv_heads, at = 0;
	size_t rows = line_up(group * shape->head_dim * sizeof(float));
	size_t wide = ctx->compute == OP_BF16 ? keys * shape->head_dim * sizeof(float) : 0;

	area->scores = (float *)memory;
	at += line_up(group * keys * sizeof(float));
	area->q = (float *)(memory + at);
	at += rows;
	area->out = (float *)(memory + at);
	at += rows;
	area->k = (float *)(memory + at);
	at += line_up(wide);
	area->v = (float *)(memory + at);
	return at + line_up(wide);
}

/* The query heads of key/value head kv over keys first .. first+keys-1. */
static enum op_status
cached_group(const struct op_context *ctx, const struct cached_area *area, void *out, const void *q,
    const void *k, const void *v, size_t first, size_t keys, size_t kv,
    const struct op_attention_shape *shape)
{
	size_t dim = shape->head_dim, group = shape->heads / shape->kv_heads;
	const float *qs = element_view(area->q, q, kv * group * dim, group * dim, ctx->compute);
	struct attention_view ks =
	    attention_view(ctx, area->k, k, first, keys, kv, shape->kv_heads, dim);
	struct attention_view vs =
	    attention_view(ctx, area->v, v, first, keys, kv, shape->kv_heads, dim);
	struct gemm_shape score = {.m = group,
	    .n = keys,
	    .k = dim,
	    .lda = dim,
	    .ldb = ks.stride,
	    .ldc = keys,
	    .transpose_b = true};
	struct gemm_shape value = {
	    .m = group, .n = dim, .k = keys, .lda = keys, .ldb = vs.stride, .ldc = dim};
	enum op_status status = gemm_f32(area->scores, qs, ks.data, &score, shape->scale, 0.0f);

	for (size_t h = 0; h < group && status == OP_OK; h++) {
		float *row = area->scores + h * keys, scale;

		attention_softmax(row, 0, keys, keys, &scale);
#pragma omp simd
		for (size_t j = 0; j < keys; j++)
			row[j] *= scale;
	}
	if (status == OP_OK)
		status = gemm_f32(area->out, area->scores, vs.data, &value, 1.0f, 0.0f);
	if (status == OP_OK)
		element_store(out, kv * group * dim, area->out, group * dim, ctx->compute);
	return status;
}

enum op_status
op_attention_cached(struct op_context *ctx, void *out, const void *q, const void *k, const void *v,
    size_t length, const struct op_attention_shape *shape)
{
	size_t first = shape->window != 0 && length > shape->window ? length - shape->window : 0;
	size_t keys = length - first, each = 0;
	struct cached_area area;
	atomic_int failed = OP_OK;
	void *memory;
	enum op_status status = attention_check(ctx, shape);

	if (status == OP_OK) {
		each = cached_area_cut(&area, ctx, NULL, keys, shape);
		status = op_scratch(ctx, &memory, each * (size_t)ctx->threads);
	}
	if (status != OP_OK)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, keys * shape->heads * shape->head_dim)) private( \
    area)
	for (size_t kv = 0; kv < shape->kv_heads; kv++) {
		enum op_status st;

		cached_area_cut(
		    &area, ctx, (char *)memory + each * (size_t)omp_get_thread_num(), keys, shape);
		st = cached_group(ctx, &area, out, q, k, v, first, keys, kv, shape);
		if (st != OP_OK)
			atomic_store(&failed, (int)st);
	}
	if (failed != OP_OK)
		return op_fail(ctx, (enum op_status)failed, "a product of the attention failed");
	return OP_OK;
}
