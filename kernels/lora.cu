/*
 * The low-rank pair beside a linear layer: six thin products.
 *
 * Where activations are bfloat16, tensor cores do them all: a float32 operand is split into
 * bfloat16 numbers that add up to it, laid side by side along its rank. Three of them (24 bits)
 * where the result stays float32, as everything about the adapter does; their three results are
 * added. Where the result is an activation, both operands are split, and the products of their
 * upper parts and of each upper with the other's middle part (16 bits, of which 8 are kept) are
 * added by the product itself, whose depth is three times the rank.
 *
 * Rows of parts side by side are filled up with zeros to a multiple of 8, as tensor cores want it.
 */
#include "kernels/blas.h"
#include "kernels/lanes.h"

enum { PARTS = 3 };

/* Which part of a number stands in each of the PARTS places, two bits a place from the lowest. */
enum parts {
	PARTS_ALL = 0 | 1 << 2 | 2 << 4,
	PARTS_LEFT = 0 | 1 << 2 | 0 << 4,
	PARTS_RIGHT = 0 | 0 << 2 | 1 << 4,
};

__device__ __forceinline__ float
rounded(float x)
{
	return __uint_as_float((uint32_t)bf16_bits(x) << 16);
}

/* out (n): in (rows, rank) -> (rows, width) with the places side by side, or, where `stacked`,
   in (rank, width) -> (places * rank, width). Zeros behind the last place. */
__global__ void
split_kernel(
    bf16 *out, const float *in, size_t rank, size_t width, enum parts parts, bool stacked, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t row = i / width, col = i % width, place = (stacked ? row : col) / rank;
		float x = 0.0f;

		if (place < PARTS) {
			x = in[stacked ? i % (rank * width) : row * rank + col % rank];
			for (int part = (int)parts >> 2 * place & 3; part > 0; part--)
				x -= rounded(x);
		}
		store(out, i, x);
	}
}

/* out (rows, cols) = or += the three results of in, smallest first: (rows, stride) side by side, or
   (PARTS, rows, cols) where `stacked`. */
__global__ void
join_kernel(float *out, const float *in, size_t cols, size_t stride, bool stacked, bool accumulate,
    size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t first = stacked ? i : i / cols * stride + i % cols;
		size_t step = stacked ? n : cols;
		float sum = in[first + 2 * step] + in[first + step] + in[first];

		out[i] = accumulate ? out[i] + sum : sum;
	}
}

static struct blas_shape
product(size_t m, size_t n, size_t k, bool transpose_a, bool transpose_b, enum op_dtype dtype)
{
	return (struct blas_shape){.m = m,
	    .n = n,
	    .k = k,
	    .lda = transpose_a ? m : k,
	    .ldb = transpose_b ? k : n,
	    .ldc = n,
	    .transpose_a = transpose_a,
	    .transpose_b = transpose_b,
	    .dtype = dtype};
}

/* Elements of a row of parts side by side. */
static size_t
width_of(size_t rank)
{
	return div_up(PARTS * rank, 8) * 8;
}

/* *out (rows, width_of(rank)) or, stacked, (places * rank, cols), cut from *area, which moves on.
 */
static enum op_status
split(struct op_context *ctx, bf16 **out, char **area, const float *in, size_t rows, size_t cols,
    enum parts parts, bool stacked)
{
	size_t rank = stacked ? rows : cols, width = stacked ? cols : width_of(rank);
	size_t n = stacked ? width_of(rank) * cols : rows * width;

	*out = (bf16 *)*area;
	*area += line_up(n * sizeof(bf16));
	return GPU_RUN(ctx, split_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, *out, in, rank, width,
	    parts, stacked, n);
}

static size_t
split_bytes(size_t rows, size_t rank)
{
	return line_up(rows * width_of(rank) * sizeof(bf16));
}

static size_t
wide_bytes(size_t rows, size_t rank)
{
	return line_up(rows * width_of(rank) * sizeof(float));
}

/* What the products of one call take of scratch memory: operands of the tokens
   and of the outputs or inputs, both split, or one of them split and the other's result wide. */
static size_t
area_bytes(const struct op_context *ctx, size_t rank, size_t tokens, size_t outputs, size_t inputs)
{
	size_t features = size_max(outputs, inputs);

	if (ctx->compute == OP_F32)
		return 0;
	return size_max(wide_bytes(features, rank) + split_bytes(tokens, rank),
	    wide_bytes(tokens, rank) + split_bytes(features, rank));
}

/* out (rows, R) = or += alpha left . right, right (depth, R) float32: left (rows, depth) act, or
   its transpose (depth, rows). */
static enum op_status
thin(struct op_context *ctx, char *area, float *out, const void *left, const float *right,
    bool transpose, size_t rows, size_t rank, size_t depth, float alpha, bool accumulate)
{
	struct blas_shape s = product(rows, rank, depth, transpose, false, OP_F32);
	size_t n = rows * rank;
	bf16 *parts;
	float *wide;

	if (ctx->compute == OP_F32)
		return blas_product(ctx, out, left, right, &s, alpha, accumulate ? 1.0f : 0.0f);
	GPU_TRY(split(ctx, &parts, &area, right, depth, rank, PARTS_ALL, false));
	wide = (float *)area;
	s.dtype = OP_BF16;
	s.n = s.ldb = s.ldc = width_of(rank);
	GPU_TRY(blas_product(ctx, wide, left, parts, &s, alpha, 0.0f));
	return GPU_RUN(ctx, join_kernel, gpu_blocks(ctx, n), GPU_BLOCK, 0, out, wide, rank,
	    width_of(rank), false, accumulate, n);
}

/* out (T, N) act += alpha left (T, R) . right: (N, R), or (R, N) where `stacked`; both float32. */
static enum op_status
update(struct op_context *ctx, char *area, void *out, const float *left, const float *right,
    bool stacked, size_t tokens, size_t rank, size_t outputs, float alpha)
{
	struct blas_shape s = product(tokens, outputs, rank, false, !stacked, OP_F32);
	bf16 *a, *b;

	if (ctx->compute == OP_F32)
		return blas_product(ctx, out, left, right, &s, alpha, 1.0f);
	GPU_TRY(split(ctx, &a, &area, left, tokens, rank, PARTS_LEFT, false));
	GPU_TRY(split(ctx, &b, &area, right, stacked ? rank : outputs, stacked ? outputs : rank,
	    PARTS_RIGHT, stacked));
	s = product(tokens, outputs, width_of(rank), false, !stacked, OP_BF16);
	s.result = OP_BF16;
	return blas_product(ctx, out, a, b, &s, alpha, 1.0f);
}

/* xa (T, R) = x (T, K) act . A^T. */
static enum op_status
down(struct op_context *ctx, char *area, float *xa, const void *x, const struct op_lora *lora,
    size_t tokens, size_t inputs)
{
	size_t rank = lora->rank;
	struct blas_shape s = product(tokens, rank, inputs, false, true, OP_F32);
	bf16 *parts;
	float *wide;

	if (ctx->compute == OP_F32)
		return blas_product(ctx, xa, x, lora->a, &s, 1.0f, 0.0f);
	GPU_TRY(split(ctx, &parts, &area, lora->a, rank, inputs, PARTS_ALL, true));
	wide = (float *)area;
	s.dtype = OP_BF16;
	s.n = s.ldc = width_of(rank);
	GPU_TRY(blas_product(ctx, wide, x, parts, &s, 1.0f, 0.0f));
	return GPU_RUN(ctx, join_kernel, gpu_blocks(ctx, tokens * rank), GPU_BLOCK, 0, xa, wide,
	    rank, width_of(rank), false, false, tokens * rank);
}

enum op_status
op_lora(struct op_context *ctx, void *out, float *xa, const void *x, const struct op_lora *lora,
    size_t tokens, size_t outputs, size_t inputs)
{
	void *area;

	if (tokens == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &area, area_bytes(ctx, lora->rank, tokens, outputs, inputs)));
	GPU_TRY(down(ctx, (char *)area, xa, x, lora, tokens, inputs));
	return update(
	    ctx, (char *)area, out, xa, lora->b, false, tokens, lora->rank, outputs, lora->scale);
}

/* da (R, K) += dxa^T (R, T) . x (T, K) act. */
static enum op_status
gradient_a(struct op_context *ctx, char *area, float *da, const float *dxa, const void *x,
    size_t rank, size_t tokens, size_t inputs)
{
	struct blas_shape s = product(rank, inputs, tokens, true, false, OP_F32);
	bf16 *parts;
	float *wide;

	if (ctx->compute == OP_F32)
		return blas_product(ctx, da, dxa, x, &s, 1.0f, 1.0f);
	GPU_TRY(split(ctx, &parts, &area, dxa, tokens, rank, PARTS_ALL, false));
	wide = (float *)area;
	s.dtype = OP_BF16;
	s.m = s.lda = width_of(rank);
	GPU_TRY(blas_product(ctx, wide, parts, x, &s, 1.0f, 0.0f));
	return GPU_RUN(ctx, join_kernel, gpu_blocks(ctx, rank * inputs), GPU_BLOCK, 0, da, wide,
	    inputs, 0, true, true, rank * inputs);
}

enum op_status
op_lora_backward(struct op_context *ctx, void *dx, float *da, float *db, const void *dout,
    const void *x, const float *xa, const struct op_lora *lora, size_t tokens, size_t outputs,
    size_t inputs)
{
	size_t rank = lora->rank, head = line_up(tokens * rank * sizeof(float));
	void *memory;
	float *dxa;
	char *area;

	if (tokens == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &memory, head + area_bytes(ctx, rank, tokens, outputs, inputs)));
	dxa = (float *)memory;
	area = (char *)memory + head;
	GPU_TRY(
	    thin(ctx, area, dxa, dout, lora->b, false, tokens, rank, outputs, lora->scale, false));
	GPU_TRY(update(ctx, area, dx, dxa, lora->a, true, tokens, rank, inputs, 1.0f));
	GPU_TRY(thin(ctx, area, db, dout, xa, true, outputs, rank, tokens, lora->scale, true));
	return gradient_a(ctx, area, da, dxa, x, rank, tokens, inputs);
}
