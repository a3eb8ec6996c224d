/* Ops that read and write each element once: memory bandwidth is their bound. */
#include "kernels/context.h"
#include "kernels/element.h"

enum op_status
op_round(struct op_context *ctx, void *out, const float *in, size_t n)
{
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK)
		element_store(out, i, in + i, size_min(ELEMENT_BLOCK, n - i), ctx->compute);
	return OP_OK;
}

enum op_status
op_add(struct op_context *ctx, float *out, const float *in, const void *branch, size_t n)
{
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK)
		element_add(out, in, branch, i, size_min(ELEMENT_BLOCK, n - i), ctx->compute);
	return OP_OK;
}
