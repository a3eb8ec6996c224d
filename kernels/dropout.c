/* Inverted dropout. Word i % 4 of Philox block i / 4 decides about element i of the stream. */
#include "kernels/context.h"
#include "kernels/element.h"
#include "kernels/philox.h"

/* scale[j] = what element first+j is multiplied by: 0 or 1/(1-p). */
static void
mask(float *scale, uint64_t seed, uint64_t first, size_t n, uint32_t threshold, float keep)
{
	uint64_t from = first / 4, to = (first + n + 3) / 4;
	uint32_t words[ELEMENT_BLOCK + 8];

#pragma omp simd
	for (uint64_t b = from; b < to; b++)
		philox(words + (b - from) * 4, seed, 0, b);
#pragma omp simd
	for (size_t j = 0; j < n; j++)
		scale[j] = words[first % 4 + j] < threshold ? 0.0f : keep;
}

static enum op_status
check(struct op_context *ctx, float probability)
{
	if (probability >= 0.0f && probability < 1.0f)
		return OP_OK;
	return op_fail(ctx, OP_UNSUPPORTED, "dropout probability %g", (double)probability);
}

enum op_status
op_dropout(struct op_context *ctx, void *out, const void *in, float probability, uint64_t seed,
    uint64_t offset, size_t n)
{
	uint32_t threshold = (uint32_t)((double)probability * 4294967296.0);
	float keep = 1.0f / (1.0f - probability);
	enum op_status status = check(ctx, probability);

	if (status != OP_OK)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK) {
		size_t count = size_min(ELEMENT_BLOCK, n - i);
		float scale[ELEMENT_BLOCK], buffer[ELEMENT_BLOCK];
		const float *x = element_view(buffer, in, i, count, ctx->compute);

		mask(scale, seed, offset + i, count, threshold, keep);
#pragma omp simd
		for (size_t j = 0; j < count; j++)
			scale[j] *= x[j];
		element_store(out, i, scale, count, ctx->compute);
	}
	return OP_OK;
}

enum op_status
op_dropout_backward(struct op_context *ctx, void *dx, const void *dout, float probability,
    uint64_t seed, uint64_t offset, bool accumulate, size_t n)
{
	uint32_t threshold = (uint32_t)((double)probability * 4294967296.0);
	float keep = 1.0f / (1.0f - probability);
	enum op_status status = check(ctx, probability);

	if (status != OP_OK)
		return status;
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK) {
		size_t count = size_min(ELEMENT_BLOCK, n - i);
		float scale[ELEMENT_BLOCK], buffer[ELEMENT_BLOCK];
		const float *d = element_view(buffer, dout, i, count, ctx->compute);

		mask(scale, seed, offset + i, count, threshold, keep);
#pragma omp simd
		for (size_t j = 0; j < count; j++)
			scale[j] *= d[j];
		element_put(dx, i, scale, count, accumulate, ctx->compute);
	}
	return OP_OK;
}
