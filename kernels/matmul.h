/*
 * Products of bfloat16 operands with float32 accumulation, for processors that have them: oneDNN's
 * matmul primitives, made once for each shape and kept.
 */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/ops.h"

struct matmul;

struct matmul_shape {
	size_t m, n, k;
	size_t lda, ldb, ldc; /* elements from row to row */
	bool transpose_b;     /* b is stored (n, k), else (k, n) */
	bool accumulate;      /* c += instead of = */
	enum op_dtype dtype;  /* of a and b; OP_F32 is there for the tests */
};

/* Whether the processor and the library multiply bfloat16 without emulating it. */
bool matmul_native_bf16(void);

enum op_status matmul_new(struct matmul **out);
void matmul_free(struct matmul *mm);

/* c (m, n) float32 = or += a (m, k) . b. On all threads. OP_DEVICE_FAULT: the library failed. */
enum op_status matmul_run(
    struct matmul *mm, float *c, const void *a, const void *b, const struct matmul_shape *shape);

#endif
