/* bfloat16: the upper half of a float32. One number at a time; blocks are in element.h. */
#ifndef KERNELS_BF16_H
#define KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

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

#endif
