/* Products of matrices in double precision, and the sizes that are compared with them. */
#ifndef TESTS_UNIT_PRODUCT_H
#define TESTS_UNIT_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

struct sizes {
	size_t tokens, outputs, inputs;
};

/* The last ones are cut into panels where operands are converted, and into wide pieces. */
static const struct sizes sizes[] = {{1, 1, 1}, {3, 5, 7}, {17, 13, 31}, {1, 129, 64}, {65, 64, 96},
    {130, 37, 577}, {19, 5003, 11}, {2100, 3, 1031}, {5, 1100, 1031}};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* c (m, n) = a (m, k) . b^T (n, k), or b (k, n). */
static inline void
reference(double *c, const float *a, const float *b, size_t m, size_t n, size_t k, bool transpose_b)
{
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++) {
			double sum = 0.0;

			for (size_t l = 0; l < k; l++)
				sum += (double)a[i * k + l] *
				       (double)(transpose_b ? b[j * k + l] : b[l * n + j]);
			c[i * n + j] = sum;
		}
}

#endif
