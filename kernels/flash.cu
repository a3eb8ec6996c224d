/*
 * Forward: one block for each tile of 64 queries and each head; each warp has 16 queries, their
 * softmax and their output in registers. Keys of the next tile come in while the softmax and the
 * product with the values run, the next values while the scores are computed.
 *
 * Bound: tensor cores, 4 T^2/2 E H flops.
 */
#include "kernels/flash.h"
#include "kernels/flash_tile.h"

/* Scores to weights by an online softmax of base 2; `acc` is rescaled. */
template <int E, int KEYS>
__device__ __forceinline__ void
softmax_tile(float s[KEYS / 8][4], float acc[E / 8][4], float most[2], float sum[2], int row,
    int key, int window, float scale)
{
#pragma unroll
	for (int h = 0; h < 2; h++) { /* rows row and row + 8 */
		float next = most[h], keep, base;

#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int c = 0; c < 2; c++) {
				float *x = &s[n][2 * h + c];

				*x = flash_sees(row + 8 * h, key + n * 8 + c, window) ? *x * scale
										      : -INFINITY;
				next = fmaxf(next, *x);
			}
		next = lanes_max<4>(next);
		keep = most[h] == -INFINITY ? 0.0f : exp2f(most[h] - next);
		base = next == -INFINITY ? 0.0f : next; /* no key of this row so far */
		most[h] = next;
		sum[h] *= keep;
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int c = 0; c < 2; c++) {
				s[n][2 * h + c] = exp2f(s[n][2 * h + c] - base);
				sum[h] += s[n][2 * h + c];
			}
#pragma unroll
		for (int e = 0; e < E / 8; e++) {
			acc[e][2 * h] *= keep;
			acc[e][2 * h + 1] *= keep;
		}
	}
}

template <int E, int KEYS>
__global__ void
__launch_bounds__(FLASH_THREADS) flash_kernel(
    bf16 *out, float *lse, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	DYN_SHARED(bf16, queries);
	bf16 *keys = queries + TILE_ROWS * (E + FLASH_PAD), *values = keys + KEYS * (E + FLASH_PAD);
	struct tile t = a.tiles[a.count - 1 - blockIdx.x]; /* long ones first */
	int head = blockIdx.y, kv = head / (a.heads / a.kv_heads);
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 + lane / 4;
	int last = t.first + TILE_ROWS < t.end ? t.first + TILE_ROWS : t.end;
	int first = flash_first_key<KEYS>(t.first, t.start, a.window);
	float acc[E / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};

	flash_stage<E, TILE_ROWS>(queries, q, t.first, t.end, head, a.heads);
	flash_stage<E, KEYS>(keys, k, first, t.end, kv, a.kv_heads);
	cp_async_commit();
	flash_stage<E, KEYS>(values, v, first, t.end, kv, a.kv_heads);
	cp_async_commit();
	for (int j = first; j < last; j += KEYS) {
		bool more = j + KEYS < last;
		float s[KEYS / 8][4];

		cp_async_wait<1>();
		__syncthreads(); /* keys are there */
		flash_scores<E, KEYS>(s, queries + warp * 16 * (E + FLASH_PAD), keys, lane);
		__syncthreads(); /* and read */
		if (more)
			flash_stage<E, KEYS>(keys, k, j + KEYS, t.end, kv, a.kv_heads);
		cp_async_commit();
		softmax_tile<E, KEYS>(
		    s, acc, most, sum, row, j + (lane & 3) * 2, a.window, a.scale * FLASH_LOG2E);
		cp_async_wait<1>();
		__syncthreads(); /* values are there */
		flash_accumulate<E, KEYS, E>(acc, s, values, lane);
		__syncthreads(); /* and read */
		if (more)
			flash_stage<E, KEYS>(values, v, j + KEYS, t.end, kv, a.kv_heads);
		cp_async_commit();
	}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		size_t at = (size_t)(row + 8 * h) * a.heads + head;
		float total = lanes_sum<4>(sum[h]), part = 1.0f / total;

		if (row + 8 * h >= t.end)
			continue;
		if ((lane & 3) == 0)
			lse[at] = (most[h] + log2f(total)) * FLASH_LN2;
#pragma unroll
		for (int e = 0; e < E / 8; e++)
			*(uint32_t *)(out + at * E + e * 8 + (lane & 3) * 2) =
			    bf16x2_bits(acc[e][2 * h] * part, acc[e][2 * h + 1] * part);
	}
}

template <int E, int KEYS>
static enum op_status
run(struct op_context *ctx, void *out, float *lse, const void *q, const void *k, const void *v,
    const struct flash_arguments *a)
{
	size_t shared = flash_bytes(TILE_ROWS + 2 * KEYS, E);

	GPU_TRY(gpu_allow_shared(ctx, flash_kernel<E, KEYS>, shared));
	return GPU_RUN(ctx, (flash_kernel<E, KEYS>), dim3(a->count, (unsigned)a->heads),
	    FLASH_THREADS, shared, (bf16 *)out, lse, (const bf16 *)q, (const bf16 *)k,
	    (const bf16 *)v, *a);
}

bool
flash_takes(const struct op_attention_shape *shape, uintptr_t addresses)
{
	size_t dim = shape->head_dim;

	if ((addresses & 15) != 0)
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

	GPU_TRY(tiles_of(ctx, &a.tiles, &count, packing));
	a.count = (unsigned)count;
	if (count == 0)
		return OP_OK;
	switch (shape->head_dim) {
	case 64:
		return run<64, 64>(ctx, out, lse, q, k, v, &a);
	case 80:
		return run<80, 64>(ctx, out, lse, q, k, v, &a);
	case 96:
		return run<96, 64>(ctx, out, lse, q, k, v, &a);
	case 128:
		return run<128, 64>(ctx, out, lse, q, k, v, &a);
	default:
		return run<256, 32>(ctx, out, lse, q, k, v, &a);
	}
}
