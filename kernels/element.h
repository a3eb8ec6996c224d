/*
 * Elements of the activation type, read and written in blocks.
 *
 * An op's loop works on float32 blocks that stay in the first-level cache: element_view gives the
 * block as it is, or converted into the caller's buffer; element_store writes one back. So each
 * loop is written once, and the compiler vectorizes both the conversion and the maths.
 */
#ifndef KERNELS_ELEMENT_H
#define KERNELS_ELEMENT_H

#include <string.h>

#include "kernels/ops.h"

enum { ELEMENT_BLOCK = 1024 }; /* elements an op handles at a time */

static inline size_t
element_size(enum op_dtype dtype)
{
	return dtype == OP_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* Address of element i. */
static inline const void *
element_at(const void *base, size_t i, enum op_dtype dtype)
{
	return (const char *)base + i * element_size(dtype);
}

static inline uint32_t
float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float
float_of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline float
bf16_to_float(uint16_t x)
{
	return float_of_bits((uint32_t)x << 16);
}

/* Nearest, ties to even; a NaN stays one. */
static inline uint16_t
bf16_of_float(float x)
{
	uint32_t bits = float_bits(x);
	uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

static inline void
bf16_to_floats(float *restrict out, const uint16_t *restrict in, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		out[i] = bf16_to_float(in[i]);
}

static inline void
bf16_of_floats(uint16_t *restrict out, const float *restrict in, size_t n)
{
#pragma omp simd
	for (size_t i = 0; i < n; i++)
		out[i] = bf16_of_float(in[i]);
}

/* Elements i .. i+n-1 of base as float32: base itself, or converted into buffer (n). */
static inline const float *
element_view(float *buffer, const void *base, size_t i, size_t n, enum op_dtype dtype)
{
	if (dtype == OP_F32)
		return (const float *)base + i;
	bf16_to_floats(buffer, (const uint16_t *)base + i, n);
	return buffer;
}

/* base[i .. i+n-1] = in, rounded where the type is shorter. in may be where it goes. */
static inline void
element_store(void *base, size_t i, const float *in, size_t n, enum op_dtype dtype)
{
	if (dtype == OP_BF16)
		bf16_of_floats((uint16_t *)base + i, in, n);
	else if ((float *)base + i != in)
		memcpy((float *)base + i, in, n * sizeof(float));
}

#endif
