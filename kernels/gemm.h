/*
 * Matrix products of the CPU backend: oneDNN behind three functions.
 *
 * gemm_f32 is the plain product. gemm_forward and gemm_backward multiply activations with a frozen
 * matrix, whatever the types: operands are float32 where the context computes in float32; where it
 * computes in bfloat16 they are bfloat16, multiplied natively if the processor can, else widened
 * panel by panel and multiplied in float32, which gives the same meaning: products of rounded
 * operands, summed in float32.
 */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H

#include "kernels/context.h"

struct gemm_shape {
	size_t m, n, k;
	size_t lda, ldb, ldc; /* elements from row to row, as stored */
	bool transpose_a;     /* a is stored (k, m), else (m, k) */
	bool transpose_b;     /* b is stored (n, k), else (k, n) */
};

/* c (m, n) = alpha a . b + beta c. On all threads; inside a parallel region on the calling one
   alone, without touching any context. */
enum op_status gemm_f32(float *c, const float *a, const float *b, const struct gemm_shape *shape,
    float alpha, float beta);

/* out (T, N) float32, rows `stride` apart, = or += x (T, K) act . W^T. Uses the panel area. */
enum op_status gemm_forward(struct op_context *ctx, float *out, size_t stride, const void *x,
    const struct op_matrix *w, bool accumulate, size_t tokens);

/* dx (T, K) float32 = or += d (T, rows) act . W[row .. row+rows-1]. Uses the panel area. */
enum op_status gemm_backward(struct op_context *ctx, float *dx, const void *d,
    const struct op_matrix *w, size_t row, size_t rows, bool accumulate, size_t tokens);

/* The distance of rows of n float32 at which gemm_forward writes them fastest. */
size_t gemm_stride(const struct op_context *ctx, size_t n);

#endif
