#include "kernels/blas.h"
#include "kernels/vector.h"

#include <limits.h>

enum { PANEL = 64 << 20 }; /* bytes of a matrix that are converted at a time */

template <int N, typename TO, typename FROM>
__device__ __forceinline__ void
convert_some(size_t i, TO *out, const FROM *in)
{
	store_some<N>(out, i, load_some<N>(in, i));
}

template <typename TO, typename FROM>
__global__ void
convert_kernel(TO *out, const FROM *in, size_t n)
{
	GRID_ELEMENTS(4, aligned(out, in), n, convert_some, out, in);
}

static size_t
size_of(enum op_dtype dtype)
{
	return dtype == OP_BF16 ? sizeof(bf16) : sizeof(float);
}

static cudaDataType
cuda_type(enum op_dtype dtype)
{
	return dtype == OP_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Row-major a . b is column-major b^T . a^T: the operands change places. */
enum op_status
blas_product(struct op_context *ctx, void *c, const void *a, const void *b,
    const struct blas_shape *s, float alpha, float beta)
{
	cudaDataType type = cuda_type(s->dtype);

	if (s->m == 0 || s->n == 0)
		return OP_OK;
	if (size_max(s->m, size_max(s->n, s->k)) > INT_MAX ||
	    size_max(s->lda, size_max(s->ldb, s->ldc)) > INT_MAX)
		return op_fail(ctx, OP_UNSUPPORTED, "a product of (%zu, %zu) by %zu columns", s->m,
		    s->k, s->n);
	return gpu_check_blas(ctx,
	    cublasGemmEx(ctx->blas, s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
		s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)s->n, (int)s->m, (int)s->k, &alpha,
		b, type, (int)s->ldb, a, type, (int)s->lda, &beta, c, cuda_type(s->result),
		(int)s->ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
	    "cublasGemmEx");
}

/* *out = rows [row, row+rows) of w in the context's type: where they lie, or in the panel area. */
static enum op_status
rows_of(
    struct op_context *ctx, const void **out, const struct op_matrix *w, size_t row, size_t rows)
{
	size_t n = rows * w->cols;
	const char *from = (const char *)w->data + row * w->cols * size_of(w->dtype);
	void *panel;

	*out = from;
	if (w->dtype == ctx->compute || n == 0)
		return OP_OK;
	GPU_TRY(gpu_panel(ctx, &panel, n * size_of(ctx->compute)));
	*out = panel;
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, (convert_kernel<bf16, float>), gpu_blocks(ctx, div_up(n, 4)),
		    GPU_BLOCK, 0, (bf16 *)panel, (const float *)from, n);
	return GPU_RUN(ctx, (convert_kernel<float, bf16>), gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK,
	    0, (float *)panel, (const bf16 *)from, n);
}

/* Rows of w at a time: all where nothing is converted. */
static size_t
rows_at_once(const struct op_context *ctx, const struct op_matrix *w)
{
	if (w->dtype == ctx->compute)
		return size_max(w->rows, 1);
	return size_max(PANEL / size_max(w->cols * size_of(ctx->compute), 1), 1);
}

enum op_status
blas_forward(struct op_context *ctx, void *out, enum op_dtype type, const void *x,
    const struct op_matrix *w, bool accumulate, size_t tokens)
{
	size_t step = rows_at_once(ctx, w);

	for (size_t row = 0; row < w->rows; row += step) {
		struct blas_shape s = {.m = tokens,
		    .n = size_min(step, w->rows - row),
		    .k = w->cols,
		    .lda = w->cols,
		    .ldb = w->cols,
		    .ldc = w->rows,
		    .transpose_b = true,
		    .dtype = ctx->compute,
		    .result = type};
		const void *rows;

		GPU_TRY(rows_of(ctx, &rows, w, row, s.n));
		GPU_TRY(blas_product(ctx, (char *)out + row * size_of(type), x, rows, &s, 1.0f,
		    accumulate ? 1.0f : 0.0f));
	}
	return OP_OK;
}

enum op_status
blas_backward(struct op_context *ctx, void *dx, enum op_dtype type, const void *d,
    const struct op_matrix *w, size_t row, size_t rows, bool accumulate, size_t tokens)
{
	size_t step = rows_at_once(ctx, w);

	for (size_t i = 0; i < rows; i += step) {
		struct blas_shape s = {.m = tokens,
		    .n = w->cols,
		    .k = size_min(step, rows - i),
		    .lda = rows,
		    .ldb = w->cols,
		    .ldc = w->cols,
		    .dtype = ctx->compute,
		    .result = type};
		const void *panel;

		GPU_TRY(rows_of(ctx, &panel, w, row + i, s.k));
		GPU_TRY(blas_product(ctx, dx, (const char *)d + i * size_of(ctx->compute), panel,
		    &s, 1.0f, accumulate || i > 0 ? 1.0f : 0.0f));
	}
	return OP_OK;
}
