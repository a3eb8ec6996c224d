/*
 * Attention of one new token over a cache: one block for each query head, whose eight warps take
 * every eighth key and keep a softmax each; the eight are joined at the end. The bound is reading
 * the cache, which the heads of a group share through the second-level cache.
 */
#include "kernels/lanes.h"
#include "kernels/tiles.h"

enum { WARPS = GPU_BLOCK / 32, ELEMENTS = 256 / 32 /* of a lane */ };

template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) cached_kernel(A *out, const A *q, const A *k, const A *v, int first,
    int length, int kv_heads, int group, int dim, float scale)
{
	__shared__ float mosts[WARPS], sums[WARPS], parts[WARPS][256];
	int lane = threadIdx.x & 31, warp = threadIdx.x / 32, head = blockIdx.x;
	float query[ELEMENTS], acc[ELEMENTS] = {0.0f}, most = -INFINITY, sum = 0.0f;

#pragma unroll
	for (int n = 0; n < ELEMENTS; n++)
		query[n] = lane + n * 32 < dim ? load(q, (size_t)head * dim + lane + n * 32) * scale
					       : 0.0f;
	for (int j = first + warp; j < length; j += WARPS) {
		size_t row = ((size_t)j * kv_heads + head / group) * dim;
		float score = 0.0f, next, keep, weight;

#pragma unroll
		for (int n = 0; n < ELEMENTS; n++)
			if (lane + n * 32 < dim)
				score += query[n] * load(k, row + lane + n * 32);
		score = lanes_sum<32>(score);
		next = fmaxf(most, score);
		keep = most == -INFINITY ? 0.0f : expf(most - next);
		weight = expf(score - next);
		sum = sum * keep + weight;
		most = next;
#pragma unroll
		for (int n = 0; n < ELEMENTS; n++)
			if (lane + n * 32 < dim)
				acc[n] = acc[n] * keep + weight * load(v, row + lane + n * 32);
	}
	if (lane == 0) {
		mosts[warp] = most;
		sums[warp] = sum;
	}
#pragma unroll
	for (int n = 0; n < ELEMENTS; n++)
		parts[warp][lane + n * 32] = acc[n];
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		most = fmaxf(most, mosts[w]);
	sum = 0.0f;
	/* most is -inf of a warp without a key, which adds 0, and of one with NaN alone, which adds
	   NaN. */
	for (int w = 0; w < WARPS; w++)
		sum += sums[w] * expf(mosts[w] - most);
	for (int e = threadIdx.x; e < dim; e += GPU_BLOCK) {
		float total = 0.0f;

		for (int w = 0; w < WARPS; w++)
			total += parts[w][e] * expf(mosts[w] - most);
		store(out, (size_t)head * dim + e, total / sum);
	}
}

template <typename A>
static enum op_status
run(struct op_context *ctx, void *out, const void *q, const void *k, const void *v, size_t length,
    const struct op_attention_shape *shape)
{
	size_t first = shape->window != 0 && length > shape->window ? length - shape->window : 0;

	return GPU_RUN(ctx, cached_kernel<A>, (unsigned)shape->heads, GPU_BLOCK, 0, (A *)out,
	    (const A *)q, (const A *)k, (const A *)v, (int)first, (int)length, (int)shape->kv_heads,
	    (int)(shape->heads / shape->kv_heads), (int)shape->head_dim, shape->scale);
}

enum op_status
op_attention_cached(struct op_context *ctx, void *out, const void *q, const void *k, const void *v,
    size_t length, const struct op_attention_shape *shape)
{
	GPU_TRY(attention_check(ctx, shape));
	if (ctx->compute == OP_BF16)
		return run<bf16>(ctx, out, q, k, v, length, shape);
	return run<float>(ctx, out, q, k, v, length, shape);
}
