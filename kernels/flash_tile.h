/*
 * What the tensor-core attention kernels share: rows of bfloat16 in shared memory, and the products
 * of a warp's rows with them.
 *
 * A warp has M times 16 rows: what it reads of the other side it multiplies M times, so that with
 * M = 2 shared memory (128 bytes a cycle) keeps up with the tensor cores of sm_80 and sm_90, as it
 * would not with M = 1. Fragments as mma.m16n8k16 has them: lane l holds rows l/4 and l/4+8,
 * columns 2(l%4) and the next one of each eight. What comes out of one product, rounded, is the
 * left operand of the next: nothing but rows of q, k, v and dout is ever in shared memory.
 */
#ifndef KERNELS_FLASH_TILE_H
#define KERNELS_FLASH_TILE_H

#include "kernels/lanes.h"
#include "kernels/tiles.h"

#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_LN2 0.6931471805599453f

struct flash_row_sums {
	float lse;   /* base 2 */
	float delta; /* rowsum(dout * out) */
};

struct flash_arguments {
	const struct flash_row_sums *sums; /* (T, H); backward */
	const bf16 *dout;		   /* (T, H, E); backward */
	const struct tile *tiles;
	unsigned count;
	int heads, kv_heads, window;
	int stages; /* of flash_kv_kernel */
	float scale;
};

/* Elements from row to row in shared memory. Eight rows that one ldmatrix reads, and the eight
   chunks of 16 bytes that eight threads copy, lie in different banks: where a row is whole lines of
   128 bytes, chunk c of row r lies in the place c ^ (r % 8) of its line; else rows are a chunk
   longer, an odd number of chunks. */
template <int E> struct flash_row {
	enum { TURNED = E % 64 == 0, LONG = TURNED ? E : E + 8 };
};

/* Where chunk 2 pair + half of row r begins in its row. */
template <int E>
__device__ __forceinline__ int
flash_chunk(int r, int pair, int half)
{
	if (flash_row<E>::TURNED)
		return ((((pair & 3) * 2) ^ half ^ (r & 7)) + (pair & ~3) * 2) * 8;
	return (pair * 2 + half) * 8;
}

/* Issues the copies of rows [row, row + ROWS) of one head of x, whose row 0 begins at x, into
   shared memory; zeros from `end` on. Eight threads copy a line of 128 bytes. */
template <int E, int ROWS, int THREADS>
__device__ __forceinline__ void
flash_stage(bf16 *to, const bf16 *x, int row, int end, size_t stride)
{
	int r = threadIdx.x / 8, c = threadIdx.x % 8;
	const bf16 *from = x + (size_t)(row + r) * stride + c * 8;

	to += r * flash_row<E>::LONG + flash_chunk<E>(r, c / 2, c % 2);
#pragma unroll
	for (int i = 0; i < ROWS; i += THREADS / 8) {
		bool there = row + r + i < end;

#pragma unroll
		for (int e = 0; e < E; e += 64)
			if (E - e >= 64 || c * 8 < E - e)
				cp_async16_or_zero(
				    to + i * flash_row<E>::LONG + e, from + i * stride + e, there);
	}
}

/* s (16 M, N) = the warp's rows . columns^T: both are rows of E in shared memory. */
template <int E, int N, int M>
__device__ __forceinline__ void
flash_scores(float s[M][N / 8][4], const bf16 *rows, const bf16 *columns, int lane)
{
	enum { LONG = flash_row<E>::LONG };
	const bf16 *left = rows + (lane & 15) * LONG;
	const bf16 *right = columns + ((lane & 7) + (lane >> 4) * 8) * LONG;

#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < N / 8; n++)
			s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
#pragma unroll
	for (int e = 0; e < E / 16; e++) {
		int l = flash_chunk<E>(lane, e, lane >> 4);
		int r = flash_chunk<E>(lane, e, lane >> 3 & 1);
		uint32_t a[M][4], b[4];

#pragma unroll
		for (int m = 0; m < M; m++)
			ldmatrix_x4(a[m], left + m * 16 * LONG + l);
#pragma unroll
		for (int n = 0; n < N; n += 16) {
			ldmatrix_x4(b, right + n * LONG + r);
#pragma unroll
			for (int m = 0; m < M; m++) {
				mma_bf16(s[m][n / 8], a[m], b);
				mma_bf16(s[m][n / 8 + 1], a[m], b + 2);
			}
		}
	}
}

/* acc (16 M, W) += p (16 M, N), rounded . W columns of values (N, E) in shared memory, from a
   multiple of 64 on. */
template <int E, int N, int W, int M>
__device__ __forceinline__ void
flash_accumulate(float acc[M][W / 8][4], const float p[M][N / 8][4], const bf16 *values, int lane)
{
	enum { LONG = flash_row<E>::LONG };
	const bf16 *right = values + (lane & 15) * LONG;

#pragma unroll
	for (int n = 0; n < N; n += 16) {
		uint32_t a[M][4];

#pragma unroll
		for (int m = 0; m < M; m++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float *x = p[m][n / 8 + i / 2] + i % 2 * 2;

				a[m][i] = bf16x2_bits(x[0], x[1]);
			}
#pragma unroll
		for (int e = 0; e < W / 16; e++) {
			uint32_t b[4];

			ldmatrix_x4_trans(b, right + n * LONG + flash_chunk<E>(lane, e, lane >> 4));
#pragma unroll
			for (int m = 0; m < M; m++) {
				mma_bf16(acc[m][2 * e], a[m], b);
				mma_bf16(acc[m][2 * e + 1], a[m], b + 2);
			}
		}
	}
}

/* Does row i see row j? Window 0: no bound. */
__device__ __forceinline__ bool
flash_sees(int i, int j, int window)
{
	return j <= i && (window == 0 || i - j < window);
}

/* Does any of the queries [i, i + queries) see any of the keys [j, j + keys)? Do all? */
__device__ __forceinline__ bool
flash_meets(int i, int queries, int j, int keys, int window)
{
	return j < i + queries && (window == 0 || i - (j + keys - 1) < window);
}

__device__ __forceinline__ bool
flash_sees_all(int i, int queries, int j, int keys, int window)
{
	return j + keys - 1 <= i && (window == 0 || i + queries - 1 - j < window);
}

/* -inf where the query does not see the key: of a lane's s (16 M, N), rows are queries from `row`
   on and columns keys from `column` on, or the other way round. */
template <int N, int M, bool KEYS_ARE_ROWS>
__device__ __forceinline__ void
flash_mask(float s[M][N / 8][4], int row, int column, int window)
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < N / 8; n++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				int r = row + 16 * m + i / 2 * 8, c = column + n * 8 + (i & 1);

				if (!(KEYS_ARE_ROWS ? flash_sees(c, r, window)
						    : flash_sees(r, c, window)))
					s[m][n][i] = -INFINITY;
			}
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

/* acc (16 M, W), times `scale`, to rows `row` and on of x, whose row 0 begins at x. */
template <int W, int M>
__device__ __forceinline__ void
flash_store(
    bf16 *x, const float acc[M][W / 8][4], float scale, int row, int end, size_t stride, int lane)
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int r = row + m * 16 + h * 8 + lane / 4;
			bf16 *to = x + (size_t)r * stride + (lane & 3) * 2;

			if (r >= end)
				continue;
#pragma unroll
			for (int e = 0; e < W / 8; e++)
				*(uint32_t *)(to + e * 8) = bf16x2_bits(
				    acc[m][e][2 * h] * scale, acc[m][e][2 * h + 1] * scale);
		}
}

/* Bytes of so many rows in shared memory. */
template <int E>
static inline size_t
flash_bytes(size_t rows)
{
	return rows * flash_row<E>::LONG * sizeof(bf16);
}

/* Whether two blocks with so many bytes of shared memory find room in a multiprocessor, which has
   1 KiB more than a block may ask for and takes 1 KiB of each. */
static inline bool
flash_fits_twice(const struct op_context *ctx, size_t bytes)
{
	return 2 * (bytes + 1024) <= ctx->shared_most + 1024;
}

#endif
