/*
 * Elements of the activation type, read and written in blocks.
 *
 * An op's loop works on float32 blocks that stay in the first-level cache: element_view gives the
 * block as it is, or converted into the caller's buffer; element_store writes one back. So each
 * loop is written once, and the compiler vectorizes both the conversion and the maths.
 */
#ifndef KERNELS_ELEMENT_H
#define KERNELS_ELEMENT_H

#include "kernels/bf16.h"
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

/* Where to compute what element_store puts at base + i: there, or in buffer. */
static inline float *
element_place(float *buffer, void *base, size_t i, enum op_dtype dtype)
{
	return dtype == OP_F32 ? (float *)base + i : buffer;
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

/* sum[i .. i+n-1] = in + branch, sums of float32; sum may be branch where that is float32 too. */
static inline void
element_add(
    float *sum, const float *in, const void *branch, size_t i, size_t n, enum op_dtype dtype)
{
	for (size_t end = i + n; i < end; i += ELEMENT_BLOCK) {
		size_t count = end - i < ELEMENT_BLOCK ? end - i : ELEMENT_BLOCK;
		float buffer[ELEMENT_BLOCK];
		const float *b = element_view(buffer, branch, i, count, dtype);

		/* simd: no element depends on another, also where sum is branch. */
#pragma omp simd
		for (size_t j = 0; j < count; j++)
			sum[i + j] = in[i + j] + b[j];
	}
}

/* base[i .. i+n-1] = or += in, rounded once where the type is shorter. */
static inline void
element_put(
    void *base, size_t i, const float *restrict in, size_t n, bool accumulate, enum op_dtype dtype)
{
	for (size_t end = i + n; i < end; i += ELEMENT_BLOCK, in += ELEMENT_BLOCK) {
		size_t count = end - i < ELEMENT_BLOCK ? end - i : ELEMENT_BLOCK;
		float buffer[ELEMENT_BLOCK], sum[ELEMENT_BLOCK];
		const float *before = element_view(buffer, base, i, count, dtype);

#pragma omp simd
		for (size_t j = 0; j < count; j++)
			sum[j] = accumulate ? before[j] + in[j] : in[j];
		element_store(base, i, sum, count, dtype);
	}
}

#endif
