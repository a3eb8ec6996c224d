/*
 * What attention's forward and backward share: a block of queries of one head against all the keys
 * it may see, cut from scratch memory that each thread has for itself.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "kernels/context.h"

enum { ATTENTION_ROWS = 64 }; /* queries of a block */

/* Rows [first, first+rows) of q of a sequence against keys [key, key+keys), absolute rows. */
struct attention_block {
	size_t first, rows;
	size_t key, keys;
};

/* A matrix of one head as float32: where it lies, or converted. */
struct attention_view {
	const float *data;
	size_t stride;
};

/* Block `index` of the sequence at rows start .. end-1. */
struct attention_block attention_block(size_t start, size_t end, size_t index, size_t window);

/* Keys of the block that its row i sees: relative to block->key, [*from, *to). */
void attention_range(
    const struct attention_block *block, size_t i, size_t window, size_t *from, size_t *to);

/* rows of head `head` of x (T, heads, E) act, from row `first`. buffer (rows, E) is used only for
   bfloat16. */
struct attention_view attention_view(const struct op_context *ctx, float *buffer, const void *x,
    size_t first, size_t rows, size_t head, size_t heads, size_t head_dim);

/* Scores (keys) of one row to weights, not normalized, and to 0 outside [from, to). Returns the log
   of the sum of the exponentials of the scores; *scale = 1 / the sum of the weights. */
float attention_softmax(float *scores, size_t from, size_t to, size_t keys, float *scale);

/* The longest sequence. */
size_t attention_longest(const struct op_packing *packing);

/* OP_UNSUPPORTED for a shape that makes no sense. */
enum op_status attention_check(struct op_context *ctx, const struct op_attention_shape *shape);

#endif
