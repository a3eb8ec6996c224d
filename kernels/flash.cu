/*
 * Forward: one block for each tile of 128 queries and each head; each warp has 16 or 32 queries,
 * their softmax and their output in registers. Keys of the next tile come in while the product with
 * the values runs, the values while the scores are computed.
 *
 * Bound: tensor cores, 4 T^2/2 E H flops.
 */
#include "kernels/flash.h"
#include "kernels/flash_tile.h"

/* Scores of one row of a lane to weights by an online softmax of base 2; `acc` is rescaled. `scale`
   is positive, so that the largest score is so before and after it. */
template <int E, int KEYS>
__device__ __forceinline__ void
softmax_row(float s[KEYS / 8][4], float acc[E / 8][4], int h, float *most, float *sum, float scale)
{
	float next = *most, part = 0.0f, base, keep;

#pragma unroll
	for (int n = 0; n < KEYS / 8; n++)
		next = fmaxf(next, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
	next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 1));
	next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 2));
	base = next == -INFINITY ? 0.0f : next * scale; /* no key of this row so far */
	keep = exp2_approx(fmaf(*most, scale, -base));
	*most = next;
#pragma unroll
	for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
		for (int c = 0; c < 2; c++) {
			float p = exp2_approx(fmaf(s[n][2 * h + c], scale, -base));

			s[n][2 * h + c] = p;
			part += p;
		}
	*sum = fmaf(*sum, keep, part);
#pragma unroll
	for (int e = 0; e < E / 8; e++) {
		acc[e][2 * h] *= keep;
		acc[e][2 * h + 1] *= keep;
	}
}

/* Sums of weighted values to their means; lse is that of row 0. */
template <int E, int M>
__device__ __forceinline__ void
finish_rows(float acc[M][E / 8][4], float *lse, const float most[M][2], const float sum[M][2],
    int row, int end, const struct flash_arguments *a)
{
	int lane = threadIdx.x & 31;

#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int r = row + m * 16 + h * 8 + lane / 4;
			float total = lanes_sum<4>(sum[m][h]), part = 1.0f / total;

			if (r < end && (lane & 3) == 0)
				lse[(size_t)r * a->heads] =
				    most[m][h] * a->scale + log2f(total) * FLASH_LN2;
#pragma unroll
			for (int e = 0; e < E / 8; e++) {
				acc[m][e][2 * h] *= part;
				acc[m][e][2 * h + 1] *= part;
			}
		}
}

template <int E, int KEYS, int M, int WARPS>
__global__ void
__launch_bounds__(WARPS * 32) flash_kernel(
    bf16 *out, float *lse, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	enum { ROWS = WARPS * M * 16, THREADS = WARPS * 32, LONG = flash_row<E>::LONG };
	static_assert((int)ROWS == (int)TILE_LONG, "a block has a tile");
	DYN_SHARED(bf16, queries);
	bf16 *keys = queries + ROWS * LONG, *values = keys + KEYS * LONG;
	/* Long tiles of all heads first, so that the last blocks are short; heads that share keys
	   beside each other, so that they find them in the L2 cache. */
	struct tile t = a.tiles[a.count - 1 - blockIdx.x / a.heads];
	int head = blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 * M;
	int last = t.first + ROWS < t.end ? t.first + ROWS : t.end;
	int first = flash_first_key<KEYS>(t.first, t.start, a.window);
	size_t stride = (size_t)a.heads * E, stride_kv = (size_t)a.kv_heads * E;
	float scale = a.scale * FLASH_LOG2E;
	float acc[M][E / 8][4] = {}, most[M][2], sum[M][2] = {};

#pragma unroll
	for (int m = 0; m < M; m++)
		most[m][0] = most[m][1] = -INFINITY;
	k += kv * E;
	v += kv * E;
	flash_stage<E, ROWS, THREADS>(queries, q + head * E, t.first, t.end, stride);
	flash_stage<E, KEYS, THREADS>(keys, k, first, t.end, stride_kv);
	cp_async_commit();
	for (int j = first; j < last; j += KEYS) {
		bool meets = row < t.end && flash_meets(row, 16 * M, j, KEYS, a.window);
		float s[M][KEYS / 8][4];

		cp_async_wait<0>();
		__syncthreads(); /* keys are there, values are read */
		flash_stage<E, KEYS, THREADS>(values, v, j, t.end, stride_kv);
		cp_async_commit();
		if (meets) {
			flash_scores<E, KEYS, M>(s, queries + warp * 16 * M * LONG, keys, lane);
			if (!flash_sees_all(row, 16 * M, j, KEYS, a.window))
				flash_mask<KEYS, M, false>(
				    s, row + lane / 4, j + (lane & 3) * 2, a.window);
#pragma unroll
			for (int m = 0; m < M; m++)
#pragma unroll
				for (int h = 0; h < 2; h++)
					softmax_row<E, KEYS>(
					    s[m], acc[m], h, &most[m][h], &sum[m][h], scale);
		}
		cp_async_wait<0>();
		__syncthreads(); /* values are there, keys are read */
		if (j + KEYS < last)
			flash_stage<E, KEYS, THREADS>(keys, k, j + KEYS, t.end, stride_kv);
		cp_async_commit();
		if (meets)
			flash_accumulate<E, KEYS, E, M>(acc, s, values, lane);
	}
	finish_rows<E, M>(acc, lse + head, most, sum, row, t.end, &a);
	flash_store<E, M>(out + head * E, acc, 1.0f, row, t.end, stride, lane);
}

template <int E, int KEYS, int M, int WARPS>
static enum op_status
run(struct op_context *ctx, void *out, float *lse, const void *q, const void *k, const void *v,
    const struct flash_arguments *a)
{
	size_t shared = flash_bytes<E>(WARPS * M * 16 + 2 * KEYS);

	GPU_TRY(gpu_allow_shared(ctx, flash_kernel<E, KEYS, M, WARPS>, shared));
	return GPU_RUN(ctx, (flash_kernel<E, KEYS, M, WARPS>), a->count * (unsigned)a->heads,
	    WARPS * 32, shared, (bf16 *)out, lse, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v,
	    *a);
}

bool
flash_takes(const struct op_attention_shape *shape, uintptr_t addresses)
{
	size_t dim = shape->head_dim;

	if ((addresses & 15) != 0 || !(shape->scale > 0))
		return false;
	return dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256;
}

enum op_status
flash_forward(struct op_context *ctx, void *out, float *lse, const void *q, const void *k,
    const void *v, const struct op_packing *packing, const struct op_attention_shape *shape)
{
	struct flash_arguments a = {.heads = (int)shape->heads,
	    .kv_heads = (int)shape->kv_heads,
	    .window = attention_window(shape, packing),
	    .scale = shape->scale};
	size_t count;

	GPU_TRY(tiles_of(ctx, TILE_LONG, &a.tiles, &count, packing));
	a.count = (unsigned)count;
	if (count == 0)
		return OP_OK;
	switch (shape->head_dim) {
	case 64:
		return run<64, 96, 2, 4>(ctx, out, lse, q, k, v, &a);
	case 80:
		return run<80, 64, 2, 4>(ctx, out, lse, q, k, v, &a);
	case 96:
		return run<96, 48, 2, 4>(ctx, out, lse, q, k, v, &a);
	case 128:
		if (flash_fits_twice(ctx, flash_bytes<128>(TILE_LONG + 2 * 48)))
			return run<128, 48, 2, 4>(ctx, out, lse, q, k, v, &a);
		return run<128, 32, 2, 4>(ctx, out, lse, q, k, v, &a);
	default:
		return run<256, 32, 1, 8>(ctx, out, lse, q, k, v, &a);
	}
}
