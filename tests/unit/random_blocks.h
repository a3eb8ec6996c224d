/* Stored blocks of any type with arbitrary bits, but for their scales, which are finite. */
#ifndef TESTS_UNIT_RANDOM_BLOCKS_H
#define TESTS_UNIT_RANDOM_BLOCKS_H

#include "kernels/dequant.h"

/* Where the halves of a block lie; -1: there is no more. */
static inline const int *
halves_of(enum dequant_type type)
{
	static const int one[] = {0, -1}, two[] = {0, 2, -1}, q6_k[] = {208, -1}, none[] = {-1};

	switch (type) {
	case DEQUANT_F32:
	case DEQUANT_BF16:
		return none;
	case DEQUANT_F16:
	case DEQUANT_Q4_0:
	case DEQUANT_Q5_0:
	case DEQUANT_Q8_0:
		return one;
	case DEQUANT_Q6_K:
		return q6_k;
	default:
		return two;
	}
}

/* Fills out with n elements; returns the bytes. */
static inline size_t
random_blocks(unsigned char *out, enum dequant_type type, size_t n, uint64_t seed)
{
	const struct dequant_format *f = dequant_format(type);
	const size_t bytes = n / f->block * f->bytes;
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < bytes; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		out[i] = (unsigned char)(state >> 56);
	}
	/* The exponent's highest bit is clear: no infinity, no NaN, subnormals among them. */
	for (size_t b = 0; b < bytes; b += f->bytes) {
		for (const int *half = halves_of(type); *half >= 0; half++)
			out[b + (size_t)*half + 1] &= 0xbf;
		if (type == DEQUANT_F32 || type == DEQUANT_BF16)
			out[b + f->bytes - 1] &= 0xbf;
	}
	return bytes;
}

#endif
