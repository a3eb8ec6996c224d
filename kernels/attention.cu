/*
 * Causal attention with an online softmax (Dao 2022), plain: the form for float32 and for heads of
 * unusual width. flash.cu has the one for tensor cores.
 */
#include "kernels/attention_simt.h"
#include "kernels/flash.h"

struct attention_arguments {
	float *lse;
	const struct tile *tiles;
	unsigned count;
	int heads, kv_heads, dim, window;
	float scale;
};

template <typename A>
__global__ void
__launch_bounds__(SIMT_THREADS)
    attention_kernel(A *out, const A *q, const A *k, const A *v, struct attention_arguments a)
{
	__shared__ float weights[SIMT_ROWS][SIMT_ROWS + 1];
	DYN_SHARED(float, queries);
	float *keys = queries + SIMT_ROWS * (a.dim + 1), *values = keys + SIMT_ROWS * (a.dim + 1);
	struct tile t = a.tiles[a.count - 1 - blockIdx.x / SIMT_SPLIT]; /* long ones first */
	int first = t.first + (int)(blockIdx.x % SIMT_SPLIT) * SIMT_ROWS;
	int head = blockIdx.y, kv = head / (a.heads / a.kv_heads);
	int r = threadIdx.x / SIMT_LANES, lane = threadIdx.x % SIMT_LANES, row = first + r;
	int last = first + SIMT_ROWS < t.end ? first + SIMT_ROWS : t.end;
	float acc[SIMT_ELEMENTS] = {0.0f}, most = -INFINITY, sum = 0.0f;

	if (first >= t.end || first >= t.first + TILE_ROWS)
		return;
	simt_load(queries, q, first, t.end, head, a.heads, a.dim);
	for (int j = simt_first_key(first, t.start, a.window); j < last; j += SIMT_ROWS) {
		float score[2], next = most, keep;

		__syncthreads(); /* the tile before is read, the queries are there */
		simt_load(keys, k, j, t.end, kv, a.kv_heads, a.dim);
		simt_load(values, v, j, t.end, kv, a.kv_heads, a.dim);
		__syncthreads();
		for (int c = 0; c < 2; c++) {
			int column = lane + c * SIMT_LANES;

			score[c] = simt_sees(row, j + column, a.window)
				       ? a.scale * simt_dot(queries + r * (a.dim + 1),
						       keys + column * (a.dim + 1), a.dim)
				       : -INFINITY;
		}
		next = fmaxf(most, lanes_max<SIMT_LANES>(fmaxf(score[0], score[1])));
		keep = most == -INFINITY ? 0.0f : expf(most - next);
		for (int c = 0; c < 2; c++) {
			score[c] = score[c] == -INFINITY ? 0.0f : expf(score[c] - next);
			weights[r][lane + c * SIMT_LANES] = score[c];
		}
		sum = sum * keep + lanes_sum<SIMT_LANES>(score[0] + score[1]);
		most = next;
		__syncwarp(); /* the lanes of a row are of one warp */
		simt_accumulate(acc, weights[r], values, keep, lane, a.dim);
		__syncwarp();
	}
	if (row >= t.end)
		return;
#pragma unroll
	for (int n = 0; n < SIMT_ELEMENTS; n++)
		if (lane + n * SIMT_LANES < a.dim)
			store(out, ((size_t)row * a.heads + head) * a.dim + lane + n * SIMT_LANES,
			    acc[n] / sum);
	if (lane == 0)
		a.lse[(size_t)row * a.heads + head] = most + logf(sum);
}

template <typename A>
static enum op_status
run(struct op_context *ctx, void *out, float *lse, const void *q, const void *k, const void *v,
    const struct op_packing *packing, const struct op_attention_shape *shape)
{
	struct attention_arguments a = {.lse = lse,
	    .heads = (int)shape->heads,
	    .kv_heads = (int)shape->kv_heads,
	    .dim = (int)shape->head_dim,
	    .window = attention_window(shape, packing),
	    .scale = shape->scale};
	size_t count, shared = 3 * simt_tile_bytes(shape->head_dim);

	GPU_TRY(tiles_of(ctx, TILE_ROWS, &a.tiles, &count, packing));
	if (count == 0)
		return OP_OK;
	a.count = (unsigned)count;
	GPU_TRY(gpu_allow_shared(ctx, attention_kernel<A>, shared));
	return GPU_RUN(ctx, attention_kernel<A>,
	    dim3((unsigned)count * SIMT_SPLIT, (unsigned)shape->heads), SIMT_THREADS, shared,
	    (A *)out, (const A *)q, (const A *)k, (const A *)v, a);
}

enum op_status
op_attention(struct op_context *ctx, void *out, float *lse, const void *q, const void *k,
    const void *v, const struct op_packing *packing, const struct op_attention_shape *shape)
{
	GPU_TRY(attention_check(ctx, shape));
	if (ctx->compute == OP_F32)
		return run<float>(ctx, out, lse, q, k, v, packing, shape);
	if (flash_takes(shape, (uintptr_t)out | (uintptr_t)q | (uintptr_t)k | (uintptr_t)v))
		return flash_forward(ctx, out, lse, q, k, v, packing, shape);
	return run<bf16>(ctx, out, lse, q, k, v, packing, shape);
}
