/*
 * The low-rank pair beside a linear layer: six thin products.
 *
 * Where activations are bfloat16, the two products with x would need x in float32, ten bytes of
 * traffic for two. Instead the float32 operand is split into three bfloat16 numbers that add up to
 * it (24 bits), laid side by side as a matrix of rank 3R; tensor cores multiply it with x as it
 * lies, and the three results are added: float32's accuracy at bfloat16's price.
 */
#include "kernels/blas.h"
#include "kernels/lanes.h"

enum { PARTS = 3 };

/* in (rows, cols) -> out (PARTS, rows, cols), or (rows, PARTS, cols) where `beside`. */
__global__ void
split_kernel(bf16 *out, const float *in, size_t rows, size_t cols, bool beside)
{
	size_t n = rows * cols;

	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t row = i / cols, col = i % cols;
		float rest = in[i];

#pragma unroll
		for (int part = 0; part < PARTS; part++) {
			size_t at = beside ? (row * PARTS + part) * cols + col : part * n + i;

			store(out, at, rest);
			rest -= load(out, at);
		}
	}
}

/* out (n) = or += the parts of in (rows, PARTS, cols) or (PARTS, rows, cols), smallest first. */
__global__ void
join_kernel(float *out, const float *in, size_t rows, size_t cols, bool beside, bool accumulate)
{
	size_t n = rows * cols;

	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t row = i / cols, col = i % cols;
		size_t first = beside ? row * PARTS * cols + col : i, step = beside ? cols : n;
		float sum = in[first + 2 * step] + in[first + step] + in[first];

		out[i] = accumulate ? out[i] + sum : sum;
	}
}

static struct blas_shape
product(size_t m, size_t n, size_t k, bool transpose_a, bool transpose_b)
{
	return (struct blas_shape){.m = m,
	    .n = n,
	    .k = k,
	    .lda = transpose_a ? m : k,
	    .ldb = transpose_b ? k : n,
	    .ldc = n,
	    .transpose_a = transpose_a,
	    .transpose_b = transpose_b,
	    .dtype = OP_F32};
}

/* xa (T, R) = x (T, K) act . A^T. */
static enum op_status
down(struct op_context *ctx, float *xa, const void *x, const struct op_lora *lora, size_t tokens,
    size_t inputs)
{
	size_t rank = lora->rank, na = rank * inputs, split = line_up(PARTS * na * sizeof(bf16));
	struct blas_shape s = product(tokens, rank, inputs, false, true);
	void *area;
	float *wide;

	if (ctx->compute == OP_F32)
		return blas_product(ctx, xa, x, lora->a, &s, 1.0f, 0.0f);
	GPU_TRY(gpu_scratch(ctx, &area, split + tokens * PARTS * rank * sizeof(float)));
	wide = (float *)((char *)area + split);
	GPU_TRY(GPU_RUN(ctx, split_kernel, gpu_blocks(ctx, na), GPU_BLOCK, 0, (bf16 *)area, lora->a,
	    rank, inputs, false));
	s = product(tokens, PARTS * rank, inputs, false, true);
	s.dtype = OP_BF16;
	GPU_TRY(blas_product(ctx, wide, x, area, &s, 1.0f, 0.0f));
	return GPU_RUN(ctx, join_kernel, gpu_blocks(ctx, tokens * rank), GPU_BLOCK, 0, xa, wide,
	    tokens, rank, true, false);
}

enum op_status
op_lora(struct op_context *ctx, float *out, float *xa, const void *x, const struct op_lora *lora,
    size_t tokens, size_t outputs, size_t inputs)
{
	struct blas_shape up = product(tokens, outputs, lora->rank, false, true);

	if (tokens == 0)
		return OP_OK;
	GPU_TRY(down(ctx, xa, x, lora, tokens, inputs));
	return blas_product(ctx, out, xa, lora->b, &up, lora->scale, 1.0f);
}

/* da (R, K) += dxa^T (R, T) . x (T, K) act. `area`: what gradient_a_area says. */
static enum op_status
gradient_a(struct op_context *ctx, float *da, const float *dxa, const void *x, void *area,
    size_t rank, size_t tokens, size_t inputs)
{
	struct blas_shape s = product(rank, inputs, tokens, true, false);
	float *wide = (float *)((char *)area + line_up(PARTS * tokens * rank * sizeof(bf16)));

	if (ctx->compute == OP_F32)
		return blas_product(ctx, da, dxa, x, &s, 1.0f, 1.0f);
	GPU_TRY(GPU_RUN(ctx, split_kernel, gpu_blocks(ctx, tokens * rank), GPU_BLOCK, 0,
	    (bf16 *)area, dxa, tokens, rank, true));
	s = product(PARTS * rank, inputs, tokens, true, false);
	s.dtype = OP_BF16;
	GPU_TRY(blas_product(ctx, wide, area, x, &s, 1.0f, 0.0f));
	return GPU_RUN(ctx, join_kernel, gpu_blocks(ctx, rank * inputs), GPU_BLOCK, 0, da, wide,
	    rank, inputs, false, true);
}

static size_t
gradient_a_area(const struct op_context *ctx, size_t rank, size_t tokens, size_t inputs)
{
	if (ctx->compute == OP_F32)
		return 0;
	return line_up(PARTS * tokens * rank * sizeof(bf16)) +
	       line_up(PARTS * rank * inputs * sizeof(float));
}

enum op_status
op_lora_backward(struct op_context *ctx, float *dx, float *da, float *db, const float *dout,
    const void *x, const float *xa, const struct op_lora *lora, size_t tokens, size_t outputs,
    size_t inputs)
{
	size_t rank = lora->rank, head = line_up(tokens * rank * sizeof(float));
	struct blas_shape for_dxa = product(tokens, rank, outputs, false, false);
	struct blas_shape for_dx = product(tokens, inputs, rank, false, false);
	struct blas_shape for_db = product(outputs, rank, tokens, true, false);
	void *area;
	float *dxa;

	if (tokens == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &area, head + gradient_a_area(ctx, rank, tokens, inputs)));
	dxa = (float *)area;
	GPU_TRY(blas_product(ctx, dxa, dout, lora->b, &for_dxa, lora->scale, 0.0f));
	GPU_TRY(blas_product(ctx, dx, dxa, lora->a, &for_dx, 1.0f, 1.0f));
	GPU_TRY(blas_product(ctx, db, dout, xa, &for_db, lora->scale, 1.0f));
	return gradient_a(ctx, da, dxa, x, (char *)area + head, rank, tokens, inputs);
}
