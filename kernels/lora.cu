/*
 * The low-rank pairs beside linear layers that read the same x: thin products.
 *
 * Where activations are bfloat16, tensor cores do them all: a float32 operand is split into
 * bfloat16 numbers that add up to it, laid side by side along its rank. Three of them (24 bits)
 * where the result stays float32, as everything about the adapter does; their three results are
 * added. Where the result is an activation, both operands are split, and the products of their
 * upper parts and of each upper with the other's middle part (16 bits, of which 8 are kept) are
 * added by the product itself, whose depth is three times the rank. What a rank takes so, with
 * zeros up to a multiple of 8, is its width P here.
 *
 * Bound: bytes. The pairs of a group lie side by side, so that x is read and dx written once for
 * all of them; out and dx are written, not added to: the product with W, which comes next, has
 * flops to read them behind.
 */
#include "kernels/blas.h"
#include "kernels/lora_parts.h"

static struct blas_shape
product(size_t m, size_t n, size_t k, bool transpose_a, bool transpose_b, enum op_dtype dtype)
{
	return (struct blas_shape){.m = m,
	    .n = n,
	    .k = k,
	    .lda = transpose_a ? m : k,
	    .ldb = transpose_b ? k : n,
	    .ldc = n,
	    .transpose_a = transpose_a,
	    .transpose_b = transpose_b,
	    .dtype = dtype};
}

/* What a group of G pairs takes of scratch memory, in bfloat16. */
struct areas {
	float *wide;		  /* (T, G P): x . A^T, or dout . B, before the parts are added */
	bf16 *left;		  /* (T, G P): of xa or dxa, for a product with B or A */
	bf16 *a;		  /* (G P, K): of all A, one below the other */
	bf16 *b[OP_LORA_GROUP];	  /* (N, P) */
	bf16 *all;		  /* (T, G P): of dxa */
	bf16 *xa[OP_LORA_GROUP];  /* (T, P) */
	float *da;		  /* (G P, K): dxa^T . x, before the parts are added */
	float *db[OP_LORA_GROUP]; /* (N, P): dout^T . xa */
};

static void *
cut(uintptr_t *memory, size_t bytes)
{
	void *at = (void *)*memory;

	*memory += line_up(bytes);
	return at;
}

/* Cuts the areas from memory; returns their bytes. */
static size_t
areas_cut(struct areas *s, void *memory, const struct op_lora_linear *group, size_t count,
    size_t tokens, size_t inputs, bool backward)
{
	size_t one = lora_width(group->lora.rank), all = count * one;
	uintptr_t at = (uintptr_t)memory;

	s->wide = (float *)cut(&at, tokens * all * sizeof(float));
	s->left = (bf16 *)cut(&at, tokens * all * sizeof(bf16));
	s->a = (bf16 *)cut(&at, all * inputs * sizeof(bf16));
	for (size_t i = 0; i < count; i++)
		s->b[i] = (bf16 *)cut(&at, group[i].outputs * one * sizeof(bf16));
	if (!backward)
		return at - (uintptr_t)memory;
	s->all = (bf16 *)cut(&at, tokens * all * sizeof(bf16));
	s->da = (float *)cut(&at, all * inputs * sizeof(float));
	for (size_t i = 0; i < count; i++) {
		s->xa[i] = (bf16 *)cut(&at, tokens * one * sizeof(bf16));
		s->db[i] = (float *)cut(&at, group[i].outputs * one * sizeof(float));
	}
	return at - (uintptr_t)memory;
}

static enum op_status
areas_take(struct op_context *ctx, struct areas *s, const struct op_lora_linear *group,
    size_t count, size_t tokens, size_t inputs, bool backward)
{
	size_t bytes = areas_cut(s, NULL, group, count, tokens, inputs, backward);
	void *memory;

	GPU_TRY(gpu_scratch(ctx, &memory, bytes));
	areas_cut(s, memory, group, count, tokens, inputs, backward);
	return OP_OK;
}

static enum op_status
forward(struct op_context *ctx, const struct op_lora_linear *group, size_t count, const void *x,
    size_t tokens, size_t inputs)
{
	size_t rank = group->lora.rank, one = lora_width(rank), all = count * one;
	struct blas_shape down = product(tokens, all, inputs, false, true, OP_BF16);
	struct lora_splits splits = {};
	struct lora_sums sums = {};
	struct areas s;

	GPU_TRY(areas_take(ctx, &s, group, count, tokens, inputs, false));
	for (size_t i = 0; i < count; i++) {
		const struct op_lora *l = &group[i].lora;

		lora_split_below(&splits, s.a + i * one * inputs, l->a, rank, inputs, LORA_ALL);
		lora_split_beside(&splits, s.b[i], l->b, group[i].outputs, rank, LORA_RIGHT);
		sums.sum[i] = group[i].xa;
	}
	GPU_TRY(lora_split(ctx, &splits));
	GPU_TRY(blas_product(ctx, s.wide, x, s.a, &down, 1.0f, 0.0f));
	sums.left = s.left;
	GPU_TRY(lora_sum(ctx, &sums, s.wide, tokens, rank, count));
	for (size_t i = 0; i < count; i++) {
		struct blas_shape up = product(tokens, group[i].outputs, one, false, true, OP_BF16);

		up.lda = all;
		up.result = OP_BF16;
		GPU_TRY(blas_product(
		    ctx, group[i].out, s.left + i * one, s.b[i], &up, group[i].lora.scale, 0.0f));
	}
	return OP_OK;
}

/* The products with dout: dxa and the gradient of B, before their parts are added. */
static enum op_status
backward_outputs(struct op_context *ctx, const struct areas *s, const struct op_lora_linear *group,
    size_t count, size_t tokens)
{
	size_t one = lora_width(group->lora.rank);

	for (size_t i = 0; i < count; i++) {
		size_t outputs = group[i].outputs;
		float scale = group[i].lora.scale;
		struct blas_shape for_dxa = product(tokens, one, outputs, false, false, OP_BF16);
		struct blas_shape for_db = product(outputs, one, tokens, true, false, OP_BF16);

		for_dxa.ldc = count * one;
		GPU_TRY(blas_product(
		    ctx, s->wide + i * one, group[i].dout, s->b[i], &for_dxa, scale, 0.0f));
		GPU_TRY(blas_product(ctx, s->db[i], group[i].dout, s->xa[i], &for_db, scale, 0.0f));
	}
	return OP_OK;
}

static enum op_status
backward(struct op_context *ctx, void *dx, bool accumulate, const struct op_lora_linear *group,
    size_t count, const void *x, size_t tokens, size_t inputs)
{
	size_t rank = group->lora.rank, one = lora_width(rank), all = count * one;
	struct blas_shape for_dx = product(tokens, inputs, all, false, false, OP_BF16);
	struct blas_shape for_da = product(all, inputs, tokens, true, false, OP_BF16);
	struct lora_splits splits = {};
	struct lora_sums sums = {};
	struct lora_joins joins = {};
	struct areas s;

	GPU_TRY(areas_take(ctx, &s, group, count, tokens, inputs, true));
	for (size_t i = 0; i < count; i++) {
		const struct op_lora *l = &group[i].lora;
		size_t below = i * one * inputs;

		lora_split_below(&splits, s.a + below, l->a, rank, inputs, LORA_RIGHT);
		lora_split_beside(&splits, s.b[i], l->b, group[i].outputs, rank, LORA_ALL);
		lora_split_beside(&splits, s.xa[i], group[i].xa, tokens, rank, LORA_ALL);
		lora_join_below(&joins, group[i].da, s.da + below, rank, inputs);
		lora_join_beside(&joins, group[i].db, s.db[i], group[i].outputs, rank);
	}
	sums.left = s.left;
	sums.all = s.all;
	for_dx.result = OP_BF16;
	GPU_TRY(lora_split(ctx, &splits));
	GPU_TRY(backward_outputs(ctx, &s, group, count, tokens));
	GPU_TRY(lora_sum(ctx, &sums, s.wide, tokens, rank, count));
	if (dx != NULL)
		GPU_TRY(
		    blas_product(ctx, dx, s.left, s.a, &for_dx, 1.0f, accumulate ? 1.0f : 0.0f));
	GPU_TRY(blas_product(ctx, s.da, s.all, x, &for_da, 1.0f, 0.0f));
	return lora_join(ctx, &joins);
}

static enum op_status
forward_f32(struct op_context *ctx, const struct op_lora_linear *l, const void *x, size_t tokens,
    size_t inputs)
{
	size_t rank = l->lora.rank;
	struct blas_shape down = product(tokens, rank, inputs, false, true, OP_F32);
	struct blas_shape up = product(tokens, l->outputs, rank, false, true, OP_F32);

	GPU_TRY(blas_product(ctx, l->xa, x, l->lora.a, &down, 1.0f, 0.0f));
	return blas_product(ctx, l->out, l->xa, l->lora.b, &up, l->lora.scale, 0.0f);
}

static enum op_status
backward_f32(struct op_context *ctx, void *dx, bool accumulate, const struct op_lora_linear *l,
    const void *x, size_t tokens, size_t inputs)
{
	size_t rank = l->lora.rank;
	struct blas_shape for_dxa = product(tokens, rank, l->outputs, false, false, OP_F32);
	struct blas_shape for_dx = product(tokens, inputs, rank, false, false, OP_F32);
	struct blas_shape for_db = product(l->outputs, rank, tokens, true, false, OP_F32);
	struct blas_shape for_da = product(rank, inputs, tokens, true, false, OP_F32);
	void *dxa;

	GPU_TRY(gpu_scratch(ctx, &dxa, tokens * rank * sizeof(float)));
	GPU_TRY(blas_product(ctx, dxa, l->dout, l->lora.b, &for_dxa, l->lora.scale, 0.0f));
	if (dx != NULL)
		GPU_TRY(
		    blas_product(ctx, dx, dxa, l->lora.a, &for_dx, 1.0f, accumulate ? 1.0f : 0.0f));
	GPU_TRY(blas_product(ctx, l->db, l->dout, l->xa, &for_db, l->lora.scale, 1.0f));
	return blas_product(ctx, l->da, dxa, x, &for_da, 1.0f, 1.0f);
}

/* Pairs at once: all, unless their rank is so high that the products are not bound by bytes. */
static size_t
at_once(const struct op_context *ctx, const struct op_lora_linear *group, size_t count)
{
	return ctx->compute == OP_BF16 && group->lora.rank <= LORA_SHARED_RANK ? count : 1;
}

enum op_status
op_lora(struct op_context *ctx, const struct op_lora_linear *group, size_t count, const void *x,
    size_t tokens, size_t inputs)
{
	size_t step = tokens != 0 ? at_once(ctx, group, count) : count;

	for (size_t i = 0; i < count && tokens != 0; i += step)
		if (ctx->compute == OP_F32)
			GPU_TRY(forward_f32(ctx, group + i, x, tokens, inputs));
		else
			GPU_TRY(forward(ctx, group + i, step, x, tokens, inputs));
	return OP_OK;
}

enum op_status
op_lora_backward(struct op_context *ctx, void *dx, const struct op_lora_linear *group, size_t count,
    const void *x, size_t tokens, size_t inputs)
{
	size_t step = tokens != 0 ? at_once(ctx, group, count) : count;

	for (size_t i = 0; i < count && tokens != 0; i += step)
		if (ctx->compute == OP_F32)
			GPU_TRY(backward_f32(ctx, dx, i > 0, group + i, x, tokens, inputs));
		else
			GPU_TRY(backward(ctx, dx, i > 0, group + i, step, x, tokens, inputs));
	return OP_OK;
}
