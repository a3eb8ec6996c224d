/*
 * On the host, of both backends: tensor data as files store it, turned into float32 or bfloat16.
 * Quantized types are ggml's blocks; values are the very float32 that gguf-py computes (one
 * rounding per operation, no fused multiply-add), so that a digest over a dequantized tensor is the
 * same everywhere. Source: ggml-common.h and ggml-quants.c of https://github.com/ggml-org/ggml
 * (dequantize_row_*).
 */
#ifndef KERNELS_DEQUANT_H
#define KERNELS_DEQUANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, ggml's number, elements of a block, bytes of a block) */
#define DEQUANT_LIST(X)                                                                            \
	X(F32, 0, 1, 4)                                                                            \
	X(F16, 1, 1, 2)                                                                            \
	X(Q4_0, 2, 32, 18)                                                                         \
	X(Q4_1, 3, 32, 20)                                                                         \
	X(Q5_0, 6, 32, 22)                                                                         \
	X(Q5_1, 7, 32, 24)                                                                         \
	X(Q8_0, 8, 32, 34)                                                                         \
	X(Q4_K, 12, 256, 144)                                                                      \
	X(Q5_K, 13, 256, 176)                                                                      \
	X(Q6_K, 14, 256, 210)                                                                      \
	X(BF16, 30, 1, 2)

#define DEQUANT_ENUM(name, number, elements, bytes) DEQUANT_##name = number,
enum dequant_type { DEQUANT_LIST(DEQUANT_ENUM) };
#undef DEQUANT_ENUM

struct dequant_format {
	const char *name;
	size_t block, bytes; /* elements and bytes of a block */
};

/* The format of a ggml type number, or NULL if this build cannot read it. */
const struct dequant_format *dequant_format(uint32_t type);
/* What ggml calls a number, also where it cannot be read; "unknown" if nobody does. */
const char *dequant_type_name(uint32_t type);

/* out (n) float32 = in, n a multiple of the type's block. in need not be aligned. */
void dequant_f32(enum dequant_type type, float *out, const void *in, size_t n);
/* out (n) bfloat16 = in (n) float32, rounded to nearest even; NaN stays NaN. */
void dequant_round_bf16(uint16_t *out, const float *in, size_t n);

#ifdef __cplusplus
}
#endif

#endif
