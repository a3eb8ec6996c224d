/*
 * Backward of causal attention (Dao 2023, algorithm 2), plain, as attention.cu:
 *
 *	P = exp(scale q k^T - lse)	dP = dout v^T	D = rowsum(dout * out)
 *	dS = scale P (dP - D)		dq = dS k	dk = dS^T q	dv = P^T dout
 *
 * One kernel goes over the keys of a query, one over the queries of a key and the heads of its
 * group: each gradient is summed by one block in a fixed order, and none is added to by two.
 */
#include "kernels/attention_simt.h"
#include "kernels/flash.h"

struct backward_arguments {
	const float *lse;
	const float *delta; /* (T, H): D */
	const struct tile *tiles;
	unsigned count;
	int heads, kv_heads, dim, window;
	float scale;
};

/* delta (T * H): one warp for each. */
template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK)
    delta_kernel(float *delta, const A *dout, const A *out, size_t dim, size_t n)
{
	size_t i = grid_first() / 32;
	float sum = 0.0f;

	for (size_t e = threadIdx.x & 31; i < n && e < dim; e += 32)
		sum += load(dout, i * dim + e) * load(out, i * dim + e);
	sum = lanes_sum<32>(sum);
	if (i < n && (threadIdx.x & 31) == 0)
		delta[i] = sum;
}

/* P and dS of one query and one key, whose rows in shared memory are given. */
__device__ __forceinline__ void
backward_pair(float *p, float *ds, const float *q, const float *k, const float *dout,
    const float *v, float lse, float delta, const struct backward_arguments *a)
{
	*p = expf(a->scale * simt_dot(q, k, a->dim) - lse);
	*ds = a->scale * *p * (simt_dot(dout, v, a->dim) - delta);
}

template <typename A>
__global__ void
__launch_bounds__(SIMT_THREADS) backward_q_kernel(
    A *dq, const A *dout, const A *q, const A *k, const A *v, struct backward_arguments a)
{
	__shared__ float weights[SIMT_ROWS][SIMT_ROWS + 1];
	DYN_SHARED(float, queries);
	int long_row = a.dim + 1;
	float *douts = queries + SIMT_ROWS * long_row, *keys = douts + SIMT_ROWS * long_row;
	float *values = keys + SIMT_ROWS * long_row;
	struct tile t = a.tiles[a.count - 1 - blockIdx.x / SIMT_SPLIT];
	int first = t.first + (int)(blockIdx.x % SIMT_SPLIT) * SIMT_ROWS;
	int head = blockIdx.y, kv = head / (a.heads / a.kv_heads);
	int r = threadIdx.x / SIMT_LANES, lane = threadIdx.x % SIMT_LANES, row = first + r;
	int last = first + SIMT_ROWS < t.end ? first + SIMT_ROWS : t.end;
	float acc[SIMT_ELEMENTS] = {0.0f}, lse, delta;

	if (first >= t.end)
		return;
	lse = row < t.end ? a.lse[(size_t)row * a.heads + head] : 0.0f;
	delta = row < t.end ? a.delta[(size_t)row * a.heads + head] : 0.0f;
	simt_load(queries, q, first, t.end, head, a.heads, a.dim);
	simt_load(douts, dout, first, t.end, head, a.heads, a.dim);
	for (int j = simt_first_key(first, t.start, a.window); j < last; j += SIMT_ROWS) {
		__syncthreads();
		simt_load(keys, k, j, t.end, kv, a.kv_heads, a.dim);
		simt_load(values, v, j, t.end, kv, a.kv_heads, a.dim);
		__syncthreads();
		for (int c = lane; c < SIMT_ROWS; c += SIMT_LANES) {
			float p, ds = 0.0f;

			if (row < t.end && simt_sees(row, j + c, a.window))
				backward_pair(&p, &ds, queries + r * long_row, keys + c * long_row,
				    douts + r * long_row, values + c * long_row, lse, delta, &a);
			weights[r][c] = ds;
		}
		__syncwarp();
		simt_accumulate(acc, weights[r], keys, 1.0f, lane, a.dim);
		__syncwarp();
	}
	for (int n = 0; n < SIMT_ELEMENTS; n++)
		if (row < t.end && lane + n * SIMT_LANES < a.dim)
			store(dq, ((size_t)row * a.heads + head) * a.dim + lane + n * SIMT_LANES,
			    acc[n]);
}

/* Rows are keys here, columns queries; blockIdx.y is the key/value head. */
template <typename A>
__global__ void
__launch_bounds__(SIMT_THREADS) backward_kv_kernel(
    A *dk, A *dv, const A *dout, const A *q, const A *k, const A *v, struct backward_arguments a)
{
	__shared__ float weights[SIMT_ROWS][SIMT_ROWS + 1], scores[SIMT_ROWS][SIMT_ROWS + 1];
	DYN_SHARED(float, queries);
	int long_row = a.dim + 1;
	float *douts = queries + SIMT_ROWS * long_row, *keys = douts + SIMT_ROWS * long_row;
	float *values = keys + SIMT_ROWS * long_row;
	struct tile t = a.tiles[blockIdx.x / SIMT_SPLIT];
	int first = t.first + (int)(blockIdx.x % SIMT_SPLIT) * SIMT_ROWS;
	int kv = blockIdx.y, group = a.heads / a.kv_heads;
	int r = threadIdx.x / SIMT_LANES, lane = threadIdx.x % SIMT_LANES, row = first + r;
	/* the last query that sees a key of this block */
	int last = a.window != 0 && first + SIMT_ROWS - 1 + a.window < t.end
		       ? first + SIMT_ROWS - 1 + a.window
		       : t.end;
	float acc_k[SIMT_ELEMENTS] = {0.0f}, acc_v[SIMT_ELEMENTS] = {0.0f};

	if (first >= t.end)
		return;
	simt_load(keys, k, first, t.end, kv, a.kv_heads, a.dim);
	simt_load(values, v, first, t.end, kv, a.kv_heads, a.dim);
	for (int head = kv * group; head < (kv + 1) * group; head++)
		for (int i = first; i < last; i += SIMT_ROWS) {
			__syncthreads();
			simt_load(queries, q, i, t.end, head, a.heads, a.dim);
			simt_load(douts, dout, i, t.end, head, a.heads, a.dim);
			__syncthreads();
			for (int c = lane; c < SIMT_ROWS; c += SIMT_LANES) {
				size_t at = (size_t)(i + c) * a.heads + head;
				float p = 0.0f, ds = 0.0f;

				if (i + c < t.end && row < t.end && simt_sees(i + c, row, a.window))
					backward_pair(&p, &ds, queries + c * long_row,
					    keys + r * long_row, douts + c * long_row,
					    values + r * long_row, a.lse[at], a.delta[at], &a);
				scores[r][c] = ds;
				weights[r][c] = p;
			}
			__syncwarp();
			simt_accumulate(acc_k, scores[r], queries, 1.0f, lane, a.dim);
			simt_accumulate(acc_v, weights[r], douts, 1.0f, lane, a.dim);
			__syncwarp();
		}
	for (int n = 0; n < SIMT_ELEMENTS; n++) {
		size_t at = ((size_t)row * a.kv_heads + kv) * a.dim + lane + n * SIMT_LANES;

		if (row < t.end && lane + n * SIMT_LANES < a.dim) {
			store(dk, at, acc_k[n]);
			store(dv, at, acc_v[n]);
		}
	}
}

template <typename A>
static enum op_status
run(struct op_context *ctx, A *dq, A *dk, A *dv, const A *dout, const A *out, const A *q,
    const A *k, const A *v, size_t tokens, struct backward_arguments a)
{
	size_t rows = tokens * (size_t)a.heads, shared = 4 * simt_tile_bytes((size_t)a.dim);
	void *area;

	GPU_TRY(gpu_scratch(ctx, &area, rows * sizeof(float)));
	a.delta = (const float *)area;
	GPU_TRY(GPU_RUN(ctx, delta_kernel<A>, (unsigned)div_up(rows * 32, GPU_BLOCK), GPU_BLOCK, 0,
	    (float *)area, dout, out, (size_t)a.dim, rows));
	GPU_TRY(gpu_allow_shared(ctx, backward_q_kernel<A>, shared));
	GPU_TRY(gpu_allow_shared(ctx, backward_kv_kernel<A>, shared));
	GPU_TRY(GPU_RUN(ctx, backward_q_kernel<A>, dim3(a.count * SIMT_SPLIT, (unsigned)a.heads),
	    SIMT_THREADS, shared, dq, dout, q, k, v, a));
	return GPU_RUN(ctx, backward_kv_kernel<A>, dim3(a.count * SIMT_SPLIT, (unsigned)a.kv_heads),
	    SIMT_THREADS, shared, dk, dv, dout, q, k, v, a);
}

enum op_status
op_attention_backward(struct op_context *ctx, void *dq, void *dk, void *dv, const void *dout,
    const void *out, const float *lse, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct op_attention_shape *shape)
{
	struct backward_arguments a = {.lse = lse,
	    .heads = (int)shape->heads,
	    .kv_heads = (int)shape->kv_heads,
	    .dim = (int)shape->head_dim,
	    .window = attention_window(shape, packing),
	    .scale = shape->scale};
	uintptr_t addresses = (uintptr_t)q | (uintptr_t)k | (uintptr_t)v | (uintptr_t)dq |
			      (uintptr_t)dk | (uintptr_t)dv | (uintptr_t)dout | (uintptr_t)out;
	size_t count;

	GPU_TRY(attention_check(ctx, shape));
	GPU_TRY(tiles_of(ctx, TILE_ROWS, &a.tiles, &count, packing));
	if (count == 0)
		return OP_OK;
	a.count = (unsigned)count;
	if (ctx->compute == OP_F32)
		return run(ctx, (float *)dq, (float *)dk, (float *)dv, (const float *)dout,
		    (const float *)out, (const float *)q, (const float *)k, (const float *)v,
		    packing->tokens, a);
	if (flash_takes(shape, addresses))
		return flash_backward(ctx, dq, dk, dv, dout, out, lse, q, k, v, packing, shape);
	return run(ctx, (bf16 *)dq, (bf16 *)dk, (bf16 *)dv, (const bf16 *)dout, (const bf16 *)out,
	    (const bf16 *)q, (const bf16 *)k, (const bf16 *)v, packing->tokens, a);
}
