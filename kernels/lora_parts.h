/*
 * float32 matrices of a low rank R as bfloat16 numbers that add up to them, and back: each number
 * takes PARTS places along the rank, and a rank lora_width elements with the zeros behind them.
 * Which part stands in which place depends on what the matrix is multiplied with (lora.cu).
 *
 * The lists are what one launch does: several matrices each.
 */
#ifndef KERNELS_LORA_PARTS_H
#define KERNELS_LORA_PARTS_H

#include "kernels/gpu.h"
#include "kernels/lanes.h"

enum {
	LORA_PLACES = 3,
	LORA_SHARED_RANK = 64, /* up to here the pairs of a group are multiplied together */
};

/* The part in each place, two bits a place from the lowest. */
enum lora_order {
	LORA_ALL = 0 | 1 << 2 | 2 << 4,
	LORA_LEFT = 0 | 1 << 2 | 0 << 4,
	LORA_RIGHT = 0 | 0 << 2 | 1 << 4,
};

/* Elements that a rank takes: a multiple of 8, as tensor cores want it. */
static inline size_t
lora_width(size_t rank)
{
	return div_up(LORA_PLACES * rank, 8) * 8;
}

struct lora_splits {
	struct matrix {
		const float *in;
		bf16 *out;
		size_t rank, width, n; /* width of a row of out, elements of out */
		enum lora_order order;
		bool below; /* the places are below each other, else beside */
	} split[3 * OP_LORA_GROUP];
	size_t count;
};

/* out (lora_width(R), cols) of in (R, cols); out (rows, lora_width(R)) of in (rows, R). */
void lora_split_below(struct lora_splits *list, bf16 *out, const float *in, size_t rank,
    size_t cols, enum lora_order order);
void lora_split_beside(struct lora_splits *list, bf16 *out, const float *in, size_t rows,
    size_t rank, enum lora_order order);
enum op_status lora_split(struct op_context *ctx, const struct lora_splits *list);

/* What lora_sum writes; NULL: not asked for. */
struct lora_sums {
	float *sum[OP_LORA_GROUP]; /* (T, R) of each pair */
	bf16 *left, *all; /* (T, count * width): the sums in parts, LORA_LEFT and LORA_ALL */
};

/* Adds up the places of wide (T, count * width). */
enum op_status lora_sum(struct op_context *ctx, const struct lora_sums *to, const float *wide,
    size_t tokens, size_t rank, size_t count);

struct lora_joins {
	struct matrix {
		const float *in;
		float *out;
		size_t cols, stride, step, n; /* step from place to place, elements of out */
	} join[2 * OP_LORA_GROUP];
	size_t count;
};

/* out (R, cols) += in (lora_width(R), cols); out (rows, R) += in (rows, lora_width(R)). */
void lora_join_below(
    struct lora_joins *list, float *out, const float *in, size_t rank, size_t cols);
void lora_join_beside(
    struct lora_joins *list, float *out, const float *in, size_t rows, size_t rank);
enum op_status lora_join(struct op_context *ctx, const struct lora_joins *list);

#endif
