/*
 * What the plain attention kernels share: they take any width of head up to 256 and both types, one
 * multiplication at a time in float32. A block of 128 threads works on 16 rows against tiles of 16
 * others; 8 neighbouring lanes belong to a row, each has two of the 16 columns and every eighth
 * element of the head.
 */
#ifndef KERNELS_ATTENTION_SIMT_H
#define KERNELS_ATTENTION_SIMT_H

#include "kernels/lanes.h"
#include "kernels/tiles.h"

enum {
	SIMT_ROWS = 16,
	SIMT_LANES = 8, /* of a row */
	SIMT_THREADS = SIMT_ROWS * SIMT_LANES,
	SIMT_ELEMENTS = 256 / SIMT_LANES,   /* of the head, of one lane at most */
	SIMT_SPLIT = TILE_ROWS / SIMT_ROWS, /* blocks of a tile */
};

/* Shared bytes of one tile of 16 rows; rows are one float longer, for the banks. */
static inline size_t
simt_tile_bytes(size_t dim)
{
	return SIMT_ROWS * (dim + 1) * sizeof(float);
}

/* to (16, dim+1) = rows [row, row+16) of head `head` of x (T, heads, dim); 0 from `end` on. */
template <typename A>
__device__ __forceinline__ void
simt_load(float *to, const A *x, int row, int end, int head, int heads, int dim)
{
	for (int i = threadIdx.x; i < SIMT_ROWS * dim; i += SIMT_THREADS) {
		int r = i / dim, e = i % dim;

		to[r * (dim + 1) + e] =
		    row + r < end ? load(x, ((size_t)(row + r) * heads + head) * dim + e) : 0.0f;
	}
}

__device__ __forceinline__ float
simt_dot(const float *a, const float *b, int dim)
{
	float sum = 0.0f;

	for (int e = 0; e < dim; e++)
		sum += a[e] * b[e];
	return sum;
}

/* Does row i of the sequence see row j? Window 0: no bound. */
__device__ __forceinline__ bool
simt_sees(int i, int j, int window)
{
	return j <= i && (window == 0 || i - j < window);
}

/* acc[n] = acc[n] * keep + the sum over the 16 columns of weight[c] * values[c][lane + 8 n]. */
__device__ __forceinline__ void
simt_accumulate(float *acc, const float *weight, const float *values, float keep, int lane, int dim)
{
#pragma unroll
	for (int n = 0; n < SIMT_ELEMENTS; n++) {
		int e = lane + n * SIMT_LANES;
		float sum = acc[n] * keep;

		if (e < dim)
			for (int c = 0; c < SIMT_ROWS; c++)
				sum += weight[c] * values[c * (dim + 1) + e];
		acc[n] = sum;
	}
}

/* First row that a tile of rows from `row` may see, in steps of 16 from the sequence's start. */
__device__ __forceinline__ int
simt_first_key(int row, int start, int window)
{
	int from = window != 0 && row - window + 1 > start ? row - window + 1 : start;

	return start + (from - start) / SIMT_ROWS * SIMT_ROWS;
}

#endif
