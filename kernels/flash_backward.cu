/*
 * Backward (Dao 2023, algorithm 2) in two kernels, so that no gradient is added to by two blocks:
 *
 *	P = exp(scale q k^T - lse)	dP = dout v^T	D = rowsum(dout * out)
 *	dS = P (dP - D)		dq = scale dS k		dk = scale dS^T q	dv = P^T dout
 *
 * One has 128 queries of a head (64 where heads are wider than 128) and goes over their keys; the
 * other has 64 keys of a key/value head and goes over the heads of the group and their queries,
 * with the transposed products, so that P and dS stay in registers there too. It costs seven
 * products where one kernel with atomic sums would do five. Parts of dq, one for each 128 keys,
 * written and added in a fixed order would save two, but move T^2/32 E H bytes for the T^2 2 E H
 * flops of these: longer than the products take. Heads of 256 do not fit in registers twice: W < E
 * columns of dk and dv at a time.
 *
 * Bound: tensor cores, 14 T^2/2 E H flops; with 16 rows of a warp also shared memory.
 */
#include "kernels/flash.h"
#include "kernels/flash_tile.h"

struct alignas(16) eight {
	uint32_t pair[4]; /* of bfloat16 */
};

struct alignas(16) two_rows {
	struct flash_row_sums row[2];
};

/* lse in base 2, and D: GROUP lanes for each row of a head. */
template <int E>
__global__ void
__launch_bounds__(GPU_BLOCK) flash_sums_kernel(
    struct flash_row_sums *sums, const float *lse, const bf16 *dout, const bf16 *out, size_t n)
{
	enum { GROUP = E <= 64 ? 8 : E <= 128 ? 16 : 32 };
	size_t i = grid_first() / GROUP;
	int e = threadIdx.x % GROUP * 8;
	float sum = 0.0f;

	if (i < n && e < E) {
		eight a = ld128((const eight *)(dout + i * E + e));
		eight b = ld128((const eight *)(out + i * E + e));

#pragma unroll
		for (int j = 0; j < 4; j++) {
			sum = fmaf(__uint_as_float(a.pair[j] << 16),
			    __uint_as_float(b.pair[j] << 16), sum);
			sum = fmaf(__uint_as_float(a.pair[j] & 0xffff0000u),
			    __uint_as_float(b.pair[j] & 0xffff0000u), sum);
		}
	}
	sum = lanes_sum<GROUP>(sum);
	if (i < n && e == 0)
		sums[i] = {lse[i] * FLASH_LOG2E, sum};
}

/* Scores and dP of a lane's rows to dS, in the place of s; where s is -inf that is 0. */
template <int KEYS, int M>
__device__ __forceinline__ void
weights_of_queries(float s[M][KEYS / 8][4], const float dp[M][KEYS / 8][4],
    const struct flash_row_sums sums[M][2], float scale)
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const struct flash_row_sums *r = &sums[m][i / 2];
				float p = exp2_approx(fmaf(s[m][n][i], scale, -r->lse));

				s[m][n][i] = p * (dp[m][n][i] - r->delta);
			}
}

/* Those of a lane's rows, from `row` on. */
template <int M>
__device__ __forceinline__ void
sums_of_rows(
    struct flash_row_sums sums[M][2], int row, int end, int head, const struct flash_arguments *a)
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int r = row + m * 16 + h * 8;

			sums[m][h] = {0.0f, 0.0f};
			if (r < end)
				sums[m][h] = a->sums[(size_t)r * a->heads + head];
		}
}

/* Keys and values of a step take turns in two places: while keys are multiplied the place of the
   values takes the next keys, and the other way round. */
template <int E, int KEYS, int M, int WARPS>
__global__ void
__launch_bounds__(WARPS * 32)
    flash_q_kernel(bf16 *dq, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	enum { ROWS = WARPS * M * 16, THREADS = WARPS * 32, LONG = flash_row<E>::LONG };
	DYN_SHARED(bf16, queries);
	bf16 *douts = queries + ROWS * LONG, *here = douts + ROWS * LONG,
	     *there = here + KEYS * LONG;
	struct tile t = a.tiles[a.count - 1 - blockIdx.x / a.heads]; /* long ones first */
	int head = blockIdx.x % a.heads, kv = head / (a.heads / a.kv_heads);
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 * M;
	int last = t.first + ROWS < t.end ? t.first + ROWS : t.end;
	int first = flash_first_key<KEYS>(t.first, t.start, a.window);
	size_t stride = (size_t)a.heads * E, stride_kv = (size_t)a.kv_heads * E;
	float acc[M][E / 8][4] = {};
	struct flash_row_sums sums[M][2];

	sums_of_rows<M>(sums, row + lane / 4, t.end, head, &a);
	k += kv * E;
	v += kv * E;
	flash_stage<E, ROWS, THREADS>(queries, q + head * E, t.first, t.end, stride);
	flash_stage<E, ROWS, THREADS>(douts, a.dout + head * E, t.first, t.end, stride);
	flash_stage<E, KEYS, THREADS>(here, k, first, t.end, stride_kv);
	cp_async_commit();
	for (int j = first; j < last; j += KEYS) {
		bool meets = row < t.end && flash_meets(row, 16 * M, j, KEYS, a.window);
		float s[M][KEYS / 8][4], dp[M][KEYS / 8][4];
		bf16 *swap;

		cp_async_wait<0>();
		__syncthreads(); /* keys are here, those before are read */
		flash_stage<E, KEYS, THREADS>(there, v, j, t.end, stride_kv);
		cp_async_commit();
		if (meets) {
			flash_scores<E, KEYS, M>(s, queries + warp * 16 * M * LONG, here, lane);
			if (!flash_sees_all(row, 16 * M, j, KEYS, a.window))
				flash_mask<KEYS, M, false>(
				    s, row + lane / 4, j + (lane & 3) * 2, a.window);
		}
		cp_async_wait<0>();
		__syncthreads(); /* values are there */
		if (meets) {
			flash_scores<E, KEYS, M>(dp, douts + warp * 16 * M * LONG, there, lane);
			weights_of_queries<KEYS, M>(s, dp, sums, a.scale * FLASH_LOG2E);
		}
		__syncthreads(); /* and read */
		if (j + KEYS < last)
			flash_stage<E, KEYS, THREADS>(there, k, j + KEYS, t.end, stride_kv);
		cp_async_commit();
		if (meets)
			flash_accumulate<E, KEYS, E, M>(acc, s, here, lane);
		swap = here;
		here = there;
		there = swap;
	}
	flash_store<E, M>(dq + head * E, acc, a.scale, row, t.end, stride, lane);
}

/* Scores (keys are rows) to P in s, and dP to dS in dp; -inf to 0 and 0. */
template <int QUERIES, int M>
__device__ __forceinline__ void
weights_of_keys(float s[M][QUERIES / 8][4], float dp[M][QUERIES / 8][4],
    const struct flash_row_sums *sums, int lane, float scale)
{
#pragma unroll
	for (int n = 0; n < QUERIES / 8; n++) {
		two_rows r = ld128((const two_rows *)(sums + n * 8 + (lane & 3) * 2));

#pragma unroll
		for (int m = 0; m < M; m++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				float x = fmaf(s[m][n][i], scale, -r.row[i & 1].lse);
				float p = exp2_approx(x);

				s[m][n][i] = p;
				dp[m][n][i] = p * (dp[m][n][i] - r.row[i & 1].delta);
			}
	}
}

/* A step's queries, douts and sums, one after another. Zeros from `end` on add nothing to dk, dv.
 */
template <int E, int QUERIES, int THREADS>
__device__ __forceinline__ void
stage_queries(bf16 *to, struct flash_row_sums *sums, const bf16 *q, int row, int end, int head,
    const struct flash_arguments *a)
{
	size_t stride = (size_t)a->heads * E;
	int r = threadIdx.x;

	static_assert(QUERIES <= THREADS, "a thread has a row's sums");
	flash_stage<E, QUERIES, THREADS>(to, q + head * E, row, end, stride);
	flash_stage<E, QUERIES, THREADS>(
	    to + QUERIES * flash_row<E>::LONG, a->dout + head * E, row, end, stride);
	if (r < QUERIES)
		cp_async8_or_zero(
		    sums + r, a->sums + (size_t)(row + r) * a->heads + head, row + r < end);
	cp_async_commit();
}

template <int E, int QUERIES, int W, int M, int WARPS>
__global__ void
__launch_bounds__(WARPS * 32) flash_kv_kernel(
    bf16 *dk, bf16 *dv, const bf16 *q, const bf16 *k, const bf16 *v, struct flash_arguments a)
{
	enum { ROWS = WARPS * M * 16, THREADS = WARPS * 32, LONG = flash_row<E>::LONG };
	enum { STEP = 2 * QUERIES * LONG };
	static_assert((int)ROWS == (int)TILE_ROWS, "a block has a tile");
	DYN_SHARED(bf16, keys);
	bf16 *values = keys + ROWS * LONG, *steps = values + ROWS * LONG;
	struct flash_row_sums *sums = (struct flash_row_sums *)(steps + a.stages * STEP);
	struct tile t = a.tiles[blockIdx.x / a.kv_heads]; /* early keys have most queries */
	int kv = blockIdx.x % a.kv_heads, group = a.heads / a.kv_heads, column = blockIdx.y * W;
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, row = t.first + warp * 16 * M;
	int bound = t.first + ROWS - 1 + a.window; /* behind the last query of a window */
	int last = a.window != 0 && bound < t.end ? bound : t.end;
	int head = kv * group, end = head + group, i = t.first, place = 0;
	size_t stride_kv = (size_t)a.kv_heads * E;
	float acc_k[M][W / 8][4] = {}, acc_v[M][W / 8][4] = {};

	flash_stage<E, ROWS, THREADS>(keys, k + kv * E, t.first, t.end, stride_kv);
	flash_stage<E, ROWS, THREADS>(values, v + kv * E, t.first, t.end, stride_kv);
	stage_queries<E, QUERIES, THREADS>(steps, sums, q, i, t.end, head, &a);
	while (head < end) {
		bool wraps = i + QUERIES >= last;
		int next = wraps ? t.first : i + QUERIES, next_head = head + wraps;
		int ahead = a.stages == 2 ? place ^ 1 : 0;
		const bf16 *queries = steps + place * STEP, *douts = queries + QUERIES * LONG;

		cp_async_wait<0>();
		__syncthreads(); /* this step is there, the one before is read */
		if (a.stages == 2 && next_head < end)
			stage_queries<E, QUERIES, THREADS>(steps + ahead * STEP,
			    sums + ahead * QUERIES, q, next, t.end, next_head, &a);
		if (row < t.end && flash_meets(i, QUERIES, row, 16 * M, a.window)) {
			float s[M][QUERIES / 8][4], dp[M][QUERIES / 8][4];

			flash_scores<E, QUERIES, M>(s, keys + warp * 16 * M * LONG, queries, lane);
			if (!flash_sees_all(i, QUERIES, row, 16 * M, a.window))
				flash_mask<QUERIES, M, true>(
				    s, row + lane / 4, i + (lane & 3) * 2, a.window);
			flash_scores<E, QUERIES, M>(dp, values + warp * 16 * M * LONG, douts, lane);
			weights_of_keys<QUERIES, M>(
			    s, dp, sums + place * QUERIES, lane, a.scale * FLASH_LOG2E);
			flash_accumulate<E, QUERIES, W, M>(acc_v, s, douts + column, lane);
			flash_accumulate<E, QUERIES, W, M>(acc_k, dp, queries + column, lane);
		}
		if (a.stages == 1) {
			__syncthreads(); /* this step is read */
			if (next_head < end)
				stage_queries<E, QUERIES, THREADS>(
				    steps, sums, q, next, t.end, next_head, &a);
		}
		i = next;
		head = next_head;
		place = ahead;
	}
	flash_store<W, M>(dk + kv * E + column, acc_k, a.scale, row, t.end, stride_kv, lane);
	flash_store<W, M>(dv + kv * E + column, acc_v, 1.0f, row, t.end, stride_kv, lane);
}

template <int E, int KEYS, int M, int WARPS>
static enum op_status
launch_q(struct op_context *ctx, void *dq, const void *q, const void *k, const void *v,
    const struct op_packing *packing, struct flash_arguments a)
{
	enum { ROWS = WARPS * M * 16 };
	size_t shared = flash_bytes<E>(2 * ROWS + 2 * KEYS), count;

	GPU_TRY(tiles_of(ctx, (enum tile_size)ROWS, &a.tiles, &count, packing));
	a.count = (unsigned)count;
	GPU_TRY(gpu_allow_shared(ctx, flash_q_kernel<E, KEYS, M, WARPS>, shared));
	return GPU_RUN(ctx, (flash_q_kernel<E, KEYS, M, WARPS>), a.count * (unsigned)a.heads,
	    WARPS * 32, shared, (bf16 *)dq, (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, a);
}

/* Where two blocks of four warps do not find room in a multiprocessor, one of eight: fewer rows of
   a warp, but those devices' tensor cores are half as fast beside their shared memory. */
template <int E, int KEYS>
static enum op_status
run_q(struct op_context *ctx, void *dq, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct flash_arguments &a)
{
	if (flash_fits_twice(ctx, flash_bytes<E>(2 * TILE_LONG + 2 * KEYS)))
		return launch_q<E, KEYS, 2, 4>(ctx, dq, q, k, v, packing, a);
	return launch_q<E, KEYS, 1, 8>(ctx, dq, q, k, v, packing, a);
}

template <int E, int QUERIES>
static size_t
bytes_of_keys(size_t stages)
{
	return flash_bytes<E>(2 * TILE_ROWS + stages * 2 * QUERIES) +
	       stages * QUERIES * sizeof(struct flash_row_sums);
}

/* Two stages, if two blocks still find room in a multiprocessor. */
template <int E, int QUERIES, int W, int M, int WARPS>
static enum op_status
run_kv(struct op_context *ctx, void *dk, void *dv, const void *q, const void *k, const void *v,
    const struct op_packing *packing, struct flash_arguments a)
{
	size_t shared, count;

	a.stages = flash_fits_twice(ctx, bytes_of_keys<E, QUERIES>(2)) ? 2 : 1;
	shared = bytes_of_keys<E, QUERIES>((size_t)a.stages);
	GPU_TRY(tiles_of(ctx, TILE_ROWS, &a.tiles, &count, packing));
	a.count = (unsigned)count;
	GPU_TRY(gpu_allow_shared(ctx, flash_kv_kernel<E, QUERIES, W, M, WARPS>, shared));
	return GPU_RUN(ctx, (flash_kv_kernel<E, QUERIES, W, M, WARPS>),
	    dim3(a.count * (unsigned)a.kv_heads, E / W), WARPS * 32, shared, (bf16 *)dk, (bf16 *)dv,
	    (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, a);
}

/* The sums of all rows in scratch. */
template <int E>
static enum op_status
run_sums(struct op_context *ctx, const void *out, const float *lse, size_t rows,
    struct flash_arguments *a)
{
	enum { ROWS_OF_BLOCK = GPU_BLOCK / (E <= 64 ? 8 : E <= 128 ? 16 : 32) };
	void *area;

	GPU_TRY(gpu_scratch(ctx, &area, rows * sizeof(struct flash_row_sums)));
	a->sums = (const struct flash_row_sums *)area;
	return GPU_RUN(ctx, flash_sums_kernel<E>, (unsigned)div_up(rows, ROWS_OF_BLOCK), GPU_BLOCK,
	    0, (struct flash_row_sums *)area, lse, a->dout, (const bf16 *)out, rows);
}

enum op_status
flash_backward(struct op_context *ctx, void *dq, void *dk, void *dv, const void *dout,
    const void *out, const float *lse, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct op_attention_shape *shape)
{
	size_t rows = packing->tokens * shape->heads;
	struct flash_arguments a = {.dout = (const bf16 *)dout,
	    .heads = (int)shape->heads,
	    .kv_heads = (int)shape->kv_heads,
	    .window = attention_window(shape, packing),
	    .scale = shape->scale};

	if (rows == 0)
		return OP_OK;
	switch (shape->head_dim) {
	case 64:
		GPU_TRY(run_sums<64>(ctx, out, lse, rows, &a));
		GPU_TRY((run_q<64, 64>(ctx, dq, q, k, v, packing, a)));
		return run_kv<64, 32, 64, 2, 2>(ctx, dk, dv, q, k, v, packing, a);
	case 80:
		GPU_TRY(run_sums<80>(ctx, out, lse, rows, &a));
		GPU_TRY((run_q<80, 32>(ctx, dq, q, k, v, packing, a)));
		return run_kv<80, 32, 80, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
	case 96:
		GPU_TRY(run_sums<96>(ctx, out, lse, rows, &a));
		GPU_TRY((run_q<96, 32>(ctx, dq, q, k, v, packing, a)));
		return run_kv<96, 32, 96, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
	case 128:
		GPU_TRY(run_sums<128>(ctx, out, lse, rows, &a));
		GPU_TRY((run_q<128, 32>(ctx, dq, q, k, v, packing, a)));
		if (flash_fits_twice(ctx, bytes_of_keys<128, 64>(1)))
			return run_kv<128, 64, 128, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
		return run_kv<128, 32, 128, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
	default:
		GPU_TRY(run_sums<256>(ctx, out, lse, rows, &a));
		if (flash_fits_twice(ctx, flash_bytes<256>(2 * TILE_ROWS + 2 * 32))) {
			GPU_TRY((launch_q<256, 32, 1, 4>(ctx, dq, q, k, v, packing, a)));
			return run_kv<256, 32, 128, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
		}
		GPU_TRY((launch_q<256, 16, 1, 4>(ctx, dq, q, k, v, packing, a)));
		return run_kv<256, 16, 128, 1, 4>(ctx, dk, dv, q, k, v, packing, a);
	}
}
