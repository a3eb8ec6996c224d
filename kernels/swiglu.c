/* SwiGLU: bytes bound (3 arrays in, 2 out), as the exponential is vectorized. */
#include "kernels/context.h"
#include "kernels/element.h"
#include "kernels/exponential.h"

enum op_status
op_swiglu(struct op_context *ctx, void *out, const void *gate, const void *up, size_t n)
{
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK) {
		size_t count = size_min(ELEMENT_BLOCK, n - i);
		float gate_buffer[ELEMENT_BLOCK], up_buffer[ELEMENT_BLOCK], block[ELEMENT_BLOCK];
		const float *g = element_view(gate_buffer, gate, i, count, ctx->compute);
		const float *u = element_view(up_buffer, up, i, count, ctx->compute);

#pragma omp simd
		for (size_t j = 0; j < count; j++)
			block[j] = g[j] * sigmoid(g[j]) * u[j];
		element_store(out, i, block, count, ctx->compute);
	}
	return OP_OK;
}

/* silu'(g) = s (1 + g (1 - s)), s the sigmoid of g. */
enum op_status
op_swiglu_backward(struct op_context *ctx, void *dgate, void *dup, const void *dout,
    const void *gate, const void *up, size_t n)
{
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += ELEMENT_BLOCK) {
		size_t count = size_min(ELEMENT_BLOCK, n - i);
		float gate_buffer[ELEMENT_BLOCK], up_buffer[ELEMENT_BLOCK], buffer[ELEMENT_BLOCK];
		float dgate_buffer[ELEMENT_BLOCK], dup_buffer[ELEMENT_BLOCK];
		const float *g = element_view(gate_buffer, gate, i, count, ctx->compute);
		const float *u = element_view(up_buffer, up, i, count, ctx->compute);
		const float *d = element_view(buffer, dout, i, count, ctx->compute);
		float *dg = element_place(dgate_buffer, dgate, i, ctx->compute);
		float *du = element_place(dup_buffer, dup, i, ctx->compute);

		/* simd: no element depends on another, also where dgate is dout. */
#pragma omp simd
		for (size_t j = 0; j < count; j++) {
			float s = sigmoid(g[j]), x = d[j];

			du[j] = x * g[j] * s;
			dg[j] = x * u[j] * s * (1.0f + g[j] * (1.0f - s));
		}
		element_store(dgate, i, dg, count, ctx->compute);
		element_store(dup, i, du, count, ctx->compute);
	}
	return OP_OK;
}
