/*
 * What the tensor-core attention kernels share: tiles of bfloat16 rows in shared memory and the
 * products of a warp's 16 rows with them.
 *
 * A row is 8 elements longer than the head, so that the eight rows that one ldmatrix reads lie in
 * different banks. Fragments as mma.m16n8k16 has them: lane l holds rows l/4 and l/4+8, columns
 * 2(l%4) and the next one of each eight. What comes out of one product, rounded, is the left
 * operand of the next: nothing but rows of q, k, v and dout is ever in shared memory.
 */
#ifndef KERNELS_FLASH_TILE_H
#define KERNELS_FLASH_TILE_H

#include "kernels/lanes.h"
#include "kernels/tiles.h"

enum {
	FLASH_THREADS = 128, /* four warps, 16 rows of a tile each */
	FLASH_PAD = 8,
};

#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_LN2 0.6931471805599453f

struct flash_arguments {
	const float *lse, *delta; /* (T, H); backward */
	const bf16 *dout;	  /* (T, H, E); backward */
	const struct tile *tiles;
	unsigned count;
	int heads, kv_heads, window;
	float scale;
};

/* Issues the copies of rows [row, row+ROWS) of head `head` of x (T, heads, E); zeros from `end` on.
 */
template <int E, int ROWS>
__device__ __forceinline__ void
flash_stage(bf16 *to, const bf16 *x, int row, int end, int head, int heads)
{
	for (int i = threadIdx.x; i < ROWS * (E / 8); i += FLASH_THREADS) {
		int r = i / (E / 8), e = i % (E / 8) * 8;
		bool there = row + r < end;
		size_t from = ((size_t)(there ? row + r : row) * heads + head) * E + e;

		cp_async16_or_zero(to + r * (E + FLASH_PAD) + e, x + from, there);
	}
}

/* s (16, N) = the warp's 16 rows . columns^T: both are rows of E in shared memory. */
template <int E, int N>
__device__ __forceinline__ void
flash_scores(float s[N / 8][4], const bf16 *rows, const bf16 *columns, int lane)
{
	const bf16 *left = rows + (lane & 15) * (E + FLASH_PAD) + (lane >> 4) * 8;
	const bf16 *right =
	    columns + ((lane & 7) + (lane >> 4) * 8) * (E + FLASH_PAD) + (lane >> 3 & 1) * 8;

#pragma unroll
	for (int n = 0; n < N / 8; n++)
		s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll(E > 128 ? 2 : 16) /* all at once would not fit in registers */
	for (int e = 0; e < E; e += 16) {
		uint32_t a[4], b[4];

		ldmatrix_x4(a, left + e);
#pragma unroll
		for (int n = 0; n < N; n += 16) {
			ldmatrix_x4(b, right + n * (E + FLASH_PAD) + e);
			mma_bf16(s[n / 8], a, b);
			mma_bf16(s[n / 8 + 1], a, b + 2);
		}
	}
}

/* acc (16, W) += p (16, N), rounded . columns `first` and on of values (N, E) in shared memory. */
template <int E, int N, int W>
__device__ __forceinline__ void
flash_accumulate(float acc[W / 8][4], const float p[N / 8][4], const bf16 *values, int lane)
{
	const bf16 *right = values + (lane & 15) * (E + FLASH_PAD) + (lane >> 4) * 8;

#pragma unroll
	for (int n = 0; n < N; n += 16) {
		const float *low = p[n / 8], *high = p[n / 8 + 1];
		uint32_t a[4] = {bf16x2_bits(low[0], low[1]), bf16x2_bits(low[2], low[3]),
		    bf16x2_bits(high[0], high[1]), bf16x2_bits(high[2], high[3])};

#pragma unroll
		for (int e = 0; e < W; e += 16) {
			uint32_t b[4];

			ldmatrix_x4_trans(b, right + n * (E + FLASH_PAD) + e);
			mma_bf16(acc[e / 8], a, b);
			mma_bf16(acc[e / 8 + 1], a, b + 2);
		}
	}
}

/* Does row i see row j? Window 0: no bound. */
__device__ __forceinline__ bool
flash_sees(int i, int j, int window)
{
	return j <= i && (window == 0 || i - j < window);
}

/* The first key that a tile of queries from `row` on may see, in whole steps from the sequence's
   start. */
template <int STEP>
__device__ __forceinline__ int
flash_first_key(int row, int start, int window)
{
	int from = window != 0 && row - window + 1 > start ? row - window + 1 : start;

	return start + (from - start) / STEP * STEP;
}

/* Bytes of so many rows in shared memory. */
static inline size_t
flash_bytes(size_t rows, size_t dim)
{
	return rows * (dim + FLASH_PAD) * sizeof(bf16);
}

#endif
