/*
 * Matrix products of the CUDA backend: cuBLAS, row-major.
 *
 * Operands are float32, or bfloat16 with float32 sums; results are float32, or of bfloat16 operands
 * bfloat16, rounded once. A frozen matrix of the other type than the activations is converted piece
 * by piece in the panel area.
 */
#ifndef KERNELS_BLAS_H
#define KERNELS_BLAS_H

#include "kernels/gpu.h"

struct blas_shape {
	size_t m, n, k;
	size_t lda, ldb, ldc; /* elements from row to row, as stored */
	bool transpose_a;     /* a is stored (k, m), else (m, k) */
	bool transpose_b;     /* b is stored (n, k), else (k, n) */
	enum op_dtype dtype;  /* of a and b */
	enum op_dtype result; /* of c */
};

/* c (m, n) = alpha a . b + beta c. */
enum op_status blas_product(struct op_context *ctx, void *c, const void *a, const void *b,
    const struct blas_shape *shape, float alpha, float beta);

/* out (T, N) `type` = or += x (T, K) act . W^T. */
enum op_status blas_forward(struct op_context *ctx, void *out, enum op_dtype type, const void *x,
    const struct op_matrix *w, bool accumulate, size_t tokens);

/* dx (T, K) `type` = or += d (T, rows) act . W[row .. row+rows-1]. */
enum op_status blas_backward(struct op_context *ctx, void *dx, enum op_dtype type, const void *d,
    const struct op_matrix *w, size_t row, size_t rows, bool accumulate, size_t tokens);

#endif
