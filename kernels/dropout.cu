/* Inverted dropout. Word i % 4 of Philox block i / 4 decides about element i of the stream. */
#include "kernels/gpu.h"
#include "kernels/philox.h"
#include "kernels/vector.h"

struct dropout_mask {
	uint64_t seed, offset;
	uint32_t threshold;
	float keep;
	bool add;
};

/* The words of elements at .. at+N-1 of the stream; N is 1, or at and N multiples of 4. */
template <int N>
__device__ __forceinline__ void
draw(uint32_t *words, const struct dropout_mask &mask, uint64_t at)
{
	if constexpr (N == 1) {
		uint32_t block[4];

		philox(block, mask.seed, 0, at / 4);
		words[0] = at & 2 ? at & 1 ? block[3] : block[2] : at & 1 ? block[1] : block[0];
	} else {
#pragma unroll
		for (int j = 0; j < N; j += 4)
			philox(words + j, mask.seed, 0, at / 4 + j / 4);
	}
}

/* out = or += in under the mask. */
template <int N, typename A>
__device__ __forceinline__ void
dropout_some(size_t i, A *out, const A *in, const struct dropout_mask &mask)
{
	floats<N> x = load_some<N>(in, i), before = {};
	uint32_t words[N];

	if (mask.add)
		before = load_some<N>(out, i);
	draw<N>(words, mask, mask.offset + i);
#pragma unroll
	for (int j = 0; j < N; j++) {
		x.at[j] = words[j] < mask.threshold ? 0.0f : x.at[j] * mask.keep;
		if (mask.add)
			x.at[j] += before.at[j];
	}
	store_some<N>(out, i, x);
}

template <typename A>
__global__ void
dropout_kernel(A *out, const A *in, struct dropout_mask mask, size_t n)
{
	constexpr int N = in_vector<A>::count;

	GRID_ELEMENTS(N, mask.offset % 4 == 0 && aligned(out, in), n, dropout_some, out, in, mask);
}

template <typename A>
static enum op_status
run(struct op_context *ctx, void *out, const void *in, float probability, uint64_t seed,
    uint64_t offset, bool add, size_t n)
{
	struct dropout_mask mask = {seed, offset, 0, 0.0f, add};

	if (!(probability >= 0.0f && probability < 1.0f))
		return op_fail(ctx, OP_UNSUPPORTED, "dropout probability %g", (double)probability);
	if (n == 0)
		return OP_OK;
	mask.threshold = (uint32_t)((double)probability * 4294967296.0);
	mask.keep = 1.0f / (1.0f - probability);
	return GPU_RUN(ctx, dropout_kernel<A>, gpu_blocks(ctx, div_up(n, in_vector<A>::count)),
	    GPU_BLOCK, 0, (A *)out, (const A *)in, mask, n);
}

enum op_status
op_dropout(struct op_context *ctx, void *out, const void *in, float probability, uint64_t seed,
    uint64_t offset, size_t n)
{
	if (ctx->compute == OP_BF16)
		return run<bf16>(ctx, out, in, probability, seed, offset, false, n);
	return run<float>(ctx, out, in, probability, seed, offset, false, n);
}

enum op_status
op_dropout_backward(struct op_context *ctx, void *dx, const void *dout, float probability,
    uint64_t seed, uint64_t offset, bool accumulate, size_t n)
{
	if (!accumulate)
		return op_dropout(ctx, dx, dout, probability, seed, offset, n);
	if (ctx->compute == OP_BF16)
		return run<bf16>(ctx, dx, dout, probability, seed, offset, true, n);
	return run<float>(ctx, dx, dout, probability, seed, offset, true, n);
}
