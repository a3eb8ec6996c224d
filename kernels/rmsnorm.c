/* RMSNorm. One thread a row; the two passes over a row find it in the first-level cache. */
#include "kernels/context.h"
#include "kernels/element.h"

#include <math.h>

/* Row t of out and rstd, of the row x (width). */
static void
norm_row(const struct op_context *ctx, void *out, float *rstd, const float *x, const float *weight,
    float epsilon, float one, size_t t, size_t width)
{
	float sum = 0.0f, scale, block[ELEMENT_BLOCK];

#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < width; i++)
		sum += x[i] * x[i];
	scale = (float)(1.0 / sqrt((double)sum / (double)width + (double)epsilon));
	rstd[t] = scale;
	for (size_t i = 0; i < width; i += ELEMENT_BLOCK) {
		size_t n = size_min(ELEMENT_BLOCK, width - i);

#pragma omp simd
		for (size_t j = 0; j < n; j++)
			block[j] = x[i + j] * scale * (one + weight[i + j]);
		element_store(out, t * width + i, block, n, ctx->compute);
	}
}

enum op_status
op_rmsnorm(struct op_context *ctx, void *out, float *rstd, const float *x, const float *weight,
    float epsilon, bool one_plus, size_t tokens, size_t width)
{
	float one = one_plus ? 1.0f : 0.0f;

#pragma omp parallel for num_threads(op_team(ctx, tokens *width)) schedule(static)
	for (size_t t = 0; t < tokens; t++)
		norm_row(ctx, out, rstd, x + t * width, weight, epsilon, one, t, width);
	return OP_OK;
}

enum op_status
op_add_rmsnorm(struct op_context *ctx, void *out, float *rstd, float *sum, const float *in,
    const void *branch, const float *weight, float epsilon, bool one_plus, size_t tokens,
    size_t width)
{
	float one = one_plus ? 1.0f : 0.0f;

#pragma omp parallel for num_threads(op_team(ctx, tokens *width)) schedule(static)
	for (size_t t = 0; t < tokens; t++) {
		element_add(sum, in, branch, t * width, width, ctx->compute);
		norm_row(ctx, out, rstd, sum + t * width, weight, epsilon, one, t, width);
	}
	return OP_OK;
}

/* With y = x r and g = dout w: dx += r (g - y mean(g y)). */
enum op_status
op_rmsnorm_backward(struct op_context *ctx, float *dx, void *narrow, const void *dout,
    const float *x, const float *weight, const float *rstd, bool one_plus, size_t tokens,
    size_t width)
{
	float one = one_plus ? 1.0f : 0.0f;

#pragma omp parallel for num_threads(op_team(ctx, tokens *width)) schedule(static)
	for (size_t t = 0; t < tokens; t++) {
		const float *row = x + t * width;
		float *to = dx + t * width, block[ELEMENT_BLOCK];
		float r = rstd[t], sum = 0.0f, mean;

		for (size_t i = 0; i < width; i += ELEMENT_BLOCK) {
			size_t n = size_min(ELEMENT_BLOCK, width - i);
			const float *d = element_view(block, dout, t * width + i, n, ctx->compute);

#pragma omp simd reduction(+ : sum)
			for (size_t j = 0; j < n; j++)
				sum += d[j] * (one + weight[i + j]) * row[i + j];
		}
		mean = sum * r / (float)width;
		for (size_t i = 0; i < width; i += ELEMENT_BLOCK) {
			size_t n = size_min(ELEMENT_BLOCK, width - i);
			const float *d = element_view(block, dout, t * width + i, n, ctx->compute);

#pragma omp simd
			for (size_t j = 0; j < n; j++)
				to[i + j] +=
				    r * (d[j] * (one + weight[i + j]) - row[i + j] * r * mean);
			if (narrow != NULL)
				element_store(narrow, t * width + i, to + i, n, ctx->compute);
		}
	}
	return OP_OK;
}
