/*
 * exp(x) in float32 that the compiler can vectorize: no branch, no call, no table.
 *
 * x = k ln2 + r with |r| <= ln2/2, ln2 in two parts (Cody and Waite 1980), exp(r) by the minimax
 * polynomial of Cephes' expf, 2^k by the exponent's bits. Within 1.1 ulp of the true value from
 * -87.33 to 88.37. Below, it is exp(-87.33) = 1.2e-38, as good as 0 in a softmax or a sigmoid;
 * above, it is wrong: both ask for nothing above 0. NaN stays NaN.
 */
#ifndef KERNELS_EXPONENTIAL_H
#define KERNELS_EXPONENTIAL_H

#include "kernels/bf16.h"

static inline float
exponential(float x)
{
	const float round = 12582912.0f; /* 1.5 * 2^23: the sum has the integer in its low bits */
	float bounded = x < -87.33f ? -87.33f : x;
	float shifted = bounded * 1.44269504088896341f + round;
	float k = shifted - round;
	float r = (bounded - k * 0.693359375f) + k * 2.12194440e-4f;
	float p = 1.9875691500e-4f;
	uint32_t exponent;

	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = (p * r) * r + r + 1.0f;
	exponent = (float_bits(shifted) - float_bits(round) + 127) << 23; /* k: -126 .. 127 */
	return p * float_of_bits(exponent);
}

/* 1 / (1 + exp(-x)). */
static inline float
sigmoid(float x)
{
	float e = exponential(x < 0.0f ? x : -x);

	return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

#endif
