/* Arithmetic of sizes, for both backends. */
#ifndef KERNELS_SIZES_H
#define KERNELS_SIZES_H

#include <stddef.h>

static inline size_t
size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t
size_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline size_t
div_up(size_t a, size_t b)
{
	return (a + b - 1) / b;
}

#endif
