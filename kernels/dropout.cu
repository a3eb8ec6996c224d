/* Inverted dropout. Word i % 4 of Philox block i / 4 decides about element i of the stream. */
#include "kernels/gpu.h"
#include "kernels/lanes.h"
#include "kernels/philox.h"

struct dropout_mask {
	uint64_t seed, offset;
	uint32_t threshold;
	float keep;
};

/* out = or += in under the mask. A thread takes the elements of one Philox block after another. */
template <typename A, bool ADD>
__global__ void
dropout_kernel(A *out, const A *in, struct dropout_mask mask, size_t n)
{
	uint64_t first = mask.offset / 4, blocks = (mask.offset + n + 3) / 4 - first;

	for (size_t b = grid_first(); b < blocks; b += grid_stride()) {
		uint32_t words[4];

		philox(words, mask.seed, 0, first + b);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			uint64_t at = (first + b) * 4 + j;
			size_t i = (size_t)(at - mask.offset);

			float x;

			if (at < mask.offset || i >= n)
				continue;
			x = words[j] < mask.threshold ? 0.0f : load(in, i) * mask.keep;
			store(out, i, ADD ? load(out, i) + x : x);
		}
	}
}

template <typename A, bool ADD>
static enum op_status
run(struct op_context *ctx, void *out, const void *in, float probability, uint64_t seed,
    uint64_t offset, size_t n)
{
	struct dropout_mask mask = {seed, offset, 0, 0.0f};

	if (!(probability >= 0.0f && probability < 1.0f))
		return op_fail(ctx, OP_UNSUPPORTED, "dropout probability %g", (double)probability);
	if (n == 0)
		return OP_OK;
	mask.threshold = (uint32_t)((double)probability * 4294967296.0);
	mask.keep = 1.0f / (1.0f - probability);
	return GPU_RUN(ctx, (dropout_kernel<A, ADD>), gpu_blocks(ctx, n / 4 + 2), GPU_BLOCK, 0,
	    (A *)out, (const A *)in, mask, n);
}

enum op_status
op_dropout(struct op_context *ctx, void *out, const void *in, float probability, uint64_t seed,
    uint64_t offset, size_t n)
{
	if (ctx->compute == OP_BF16)
		return run<bf16, false>(ctx, out, in, probability, seed, offset, n);
	return run<float, false>(ctx, out, in, probability, seed, offset, n);
}

enum op_status
op_dropout_backward(struct op_context *ctx, void *dx, const void *dout, float probability,
    uint64_t seed, uint64_t offset, bool accumulate, size_t n)
{
	if (!accumulate)
		return op_dropout(ctx, dx, dout, probability, seed, offset, n);
	if (ctx->compute == OP_BF16)
		return run<bf16, true>(ctx, dx, dout, probability, seed, offset, n);
	return run<float, true>(ctx, dx, dout, probability, seed, offset, n);
}
