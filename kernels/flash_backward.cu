/*
 * Backward (Dao 2023, algorithm 2) in two kernels, so that no gradient is added to by two blocks:
 *
 *	P = exp(scale q k^T - lse)	dP = dout v^T	D = rowsum(dout * out)
 *	dS = scale P (dP - D)		dq = dS k	dk = dS^T q	dv = P^T dout
 *
 * One has 64 queries of a head and goes over their keys; the other has 64 keys of a key/value head
 * and goes over the heads of the group and their queries, with the transposed products, so that P
 * and dS stay in registers there too. It costs seven products where one kernel with atomic sums
 * would do five. Heads of 256 do not fit in registers twice: W < E columns of dk and dv at a time.
 */
#include "kernels/flash.h"
#include "kernels/flash_tile.h"

/* D: one warp for each row of a head. */
__global__ void
__launch_bounds__(GPU_BLOCK)
    flash_delta_kernel(float *delta, const bf16 *dout, const bf16 *out, int dim, size_t n)
{
	size_t i = grid_first() / 32;
	float sum = 0.0f;

	for (int e = threadIdx.x & 31; i < n && e < dim; e += 32)
		sum += load(dout, i * dim + e) * load(out, i * dim + e);
	sum = lanes_sum<32>(sum);
	if (i < n && (threadIdx.x & 31) == 0)
		delta[i] = sum;
}

template <int E, int KEYS>
__global__ void
__launch_bounds__(FLASH_THREADS)
    flash_q_kernel(bf16 *dq, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	enum { LONG = E + FLASH_PAD };
	DYN_SHARED(bf16, queries);
	bf16 *douts = queries + TILE_ROWS * LONG, *keys = douts + TILE_ROWS * LONG;
	bf16 *values = keys + KEYS * LONG;
	struct tile t = a.tiles[a.count - 1 - blockIdx.x];
	int head = blockIdx.y, kv = head / (a.heads / a.kv_heads);
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 + lane / 4;
	int last = t.first + TILE_ROWS < t.end ? t.first + TILE_ROWS : t.end;
	float acc[E / 8][4] = {}, lse[2], delta[2];

#pragma unroll
	for (int h = 0; h < 2; h++) {
		size_t at = (size_t)(row + 8 * h) * a.heads + head;

		lse[h] = row + 8 * h < t.end ? a.lse[at] * FLASH_LOG2E : 0.0f;
		delta[h] = row + 8 * h < t.end ? a.delta[at] : 0.0f;
	}
	flash_stage<E, TILE_ROWS>(queries, q, t.first, t.end, head, a.heads);
	flash_stage<E, TILE_ROWS>(douts, a.dout, t.first, t.end, head, a.heads);
	for (int j = flash_first_key<KEYS>(t.first, t.start, a.window); j < last; j += KEYS) {
		float s[KEYS / 8][4], dp[KEYS / 8][4];

		flash_stage<E, KEYS>(keys, k, j, t.end, kv, a.kv_heads);
		flash_stage<E, KEYS>(values, v, j, t.end, kv, a.kv_heads);
		cp_async_commit();
		cp_async_wait<0>();
		__syncthreads();
		flash_scores<E, KEYS>(s, queries + warp * 16 * LONG, keys, lane);
		flash_scores<E, KEYS>(dp, douts + warp * 16 * LONG, values, lane);
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				int h = i / 2, key = j + n * 8 + (lane & 3) * 2 + (i & 1);
				float p = exp2f(s[n][i] * (a.scale * FLASH_LOG2E) - lse[h]);

				s[n][i] = flash_sees(row + 8 * h, key, a.window)
					      ? a.scale * p * (dp[n][i] - delta[h])
					      : 0.0f;
			}
		flash_accumulate<E, KEYS, E>(acc, s, keys, lane);
		__syncthreads(); /* keys and values are read */
	}
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int e = 0; e < E / 8; e++)
			if (row + 8 * h < t.end)
				*(uint32_t *)(dq + ((size_t)(row + 8 * h) * a.heads + head) * E +
					      e * 8 + (lane & 3) * 2) =
				    bf16x2_bits(acc[e][2 * h], acc[e][2 * h + 1]);
}

/* P^T and dS^T of one tile: s and dp (16 keys, QUERIES) become them. */
template <int QUERIES>
__device__ __forceinline__ void
weights_of_keys(float s[QUERIES / 8][4], float dp[QUERIES / 8][4], int key, int query, int end,
    int head, const struct flash_arguments *a)
{
#pragma unroll
	for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
		for (int c = 0; c < 2; c++) {
			int i = query + n * 8 + c;
			size_t at = (size_t)i * a->heads + head;
			float lse = i < end ? a->lse[at] * FLASH_LOG2E : 0.0f;
			float delta = i < end ? a->delta[at] : 0.0f;

#pragma unroll
			for (int h = 0; h < 2; h++) {
				bool sees = i < end && flash_sees(i, key + 8 * h, a->window);
				float x = s[n][2 * h + c] * (a->scale * FLASH_LOG2E) - lse;
				float p = sees ? exp2f(x) : 0.0f;

				s[n][2 * h + c] = p;
				dp[n][2 * h + c] =
				    sees ? a->scale * p * (dp[n][2 * h + c] - delta) : 0.0f;
			}
		}
}

template <int E, int QUERIES, int W>
__global__ void
__launch_bounds__(FLASH_THREADS) flash_kv_kernel(
    bf16 *dk, bf16 *dv, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	enum { LONG = E + FLASH_PAD };
	DYN_SHARED(bf16, keys);
	bf16 *values = keys + TILE_ROWS * LONG, *queries = values + TILE_ROWS * LONG;
	bf16 *douts = queries + QUERIES * LONG;
	struct tile t = a.tiles[blockIdx.x]; /* early keys have most queries */
	int kv = blockIdx.y, group = a.heads / a.kv_heads, column = blockIdx.z * W;
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 + lane / 4;
	int bound = t.first + TILE_ROWS - 1 + a.window; /* behind the last query of a window */
	int last = a.window != 0 && bound < t.end ? bound : t.end;
	float acc_k[W / 8][4] = {}, acc_v[W / 8][4] = {};

	flash_stage<E, TILE_ROWS>(keys, k, t.first, t.end, kv, a.kv_heads);
	flash_stage<E, TILE_ROWS>(values, v, t.first, t.end, kv, a.kv_heads);
	for (int head = kv * group; head < (kv + 1) * group; head++)
		for (int i = t.first; i < last; i += QUERIES) {
			float s[QUERIES / 8][4], dp[QUERIES / 8][4];

			flash_stage<E, QUERIES>(queries, q, i, t.end, head, a.heads);
			flash_stage<E, QUERIES>(douts, a.dout, i, t.end, head, a.heads);
			cp_async_commit();
			cp_async_wait<0>();
			__syncthreads();
			flash_scores<E, QUERIES>(s, keys + warp * 16 * LONG, queries, lane);
			flash_scores<E, QUERIES>(dp, values + warp * 16 * LONG, douts, lane);
			weights_of_keys<QUERIES>(s, dp, row, i + (lane & 3) * 2, t.end, head, &a);
			flash_accumulate<E, QUERIES, W>(acc_v, s, douts + column, lane);
			flash_accumulate<E, QUERIES, W>(acc_k, dp, queries + column, lane);
			__syncthreads(); /* queries and douts are read */
		}
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int e = 0; e < W / 8; e++) {
			size_t at = ((size_t)(row + 8 * h) * a.kv_heads + kv) * E + column + e * 8 +
				    (lane & 3) * 2;

			if (row + 8 * h >= t.end)
				continue;
			*(uint32_t *)(dk + at) = bf16x2_bits(acc_k[e][2 * h], acc_k[e][2 * h + 1]);
			*(uint32_t *)(dv + at) = bf16x2_bits(acc_v[e][2 * h], acc_v[e][2 * h + 1]);
		}
}

template <int E, int STEP_Q, int STEP_KV, int W>
static enum op_status
run(struct op_context *ctx, void *dq, void *dk, void *dv, const void *q, const void *k,
    const void *v, const struct flash_arguments *a)
{
	size_t for_q = flash_bytes(2 * TILE_ROWS + 2 * STEP_Q, E);
	size_t for_kv = flash_bytes(2 * TILE_ROWS + 2 * STEP_KV, E);

	GPU_TRY(gpu_allow_shared(ctx, flash_q_kernel<E, STEP_Q>, for_q));
	GPU_TRY(gpu_allow_shared(ctx, flash_kv_kernel<E, STEP_KV, W>, for_kv));
	GPU_TRY(GPU_RUN(ctx, (flash_q_kernel<E, STEP_Q>), dim3(a->count, (unsigned)a->heads),
	    FLASH_THREADS, for_q, (bf16 *)dq, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v,
	    *a));
	return GPU_RUN(ctx, (flash_kv_kernel<E, STEP_KV, W>),
	    dim3(a->count, (unsigned)a->kv_heads, E / W), FLASH_THREADS, for_kv, (bf16 *)dk,
	    (bf16 *)dv, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, *a);
}

enum op_status
flash_backward(struct op_context *ctx, void *dq, void *dk, void *dv, const void *dout,
    const void *out, const float *lse, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct op_attention_shape *shape)
{
	size_t rows = packing->tokens * shape->heads, dim = shape->head_dim, count;
	struct flash_arguments a = {.lse = lse,
	    .dout = (const bf16 *)dout,
	    .heads = (int)shape->heads,
	    .kv_heads = (int)shape->kv_heads,
	    .window = attention_window(shape, packing),
	    .scale = shape->scale};
	void *area;

	GPU_TRY(tiles_of(ctx, &a.tiles, &count, packing));
	a.count = (unsigned)count;
	if (count == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &area, rows * sizeof(float)));
	a.delta = (const float *)area;
	GPU_TRY(GPU_RUN(ctx, flash_delta_kernel, (unsigned)div_up(rows * 32, GPU_BLOCK), GPU_BLOCK,
	    0, (float *)area, a.dout, (const bf16 *)out, (int)dim, rows));
	switch (dim) {
	case 64:
		return run<64, 64, 64, 64>(ctx, dq, dk, dv, q, k, v, &a);
	case 80:
		return run<80, 32, 32, 80>(ctx, dq, dk, dv, q, k, v, &a);
	case 96:
		return run<96, 32, 32, 96>(ctx, dq, dk, dv, q, k, v, &a);
	case 128:
		return run<128, 32, 32, 128>(ctx, dq, dk, dv, q, k, v, &a);
	default:
		return run<256, 16, 16, 128>(ctx, dq, dk, dv, q, k, v, &a);
	}
}
