/* Reductions of a flat buffer to one value on the host. */
#include "kernels/context.h"
#include "kernels/element.h"

enum { SUM_BLOCK = 16384 };

enum op_status
op_sum_squares(struct op_context *ctx, double *out, const float *in, size_t n)
{
	size_t blocks = div_up(n, SUM_BLOCK);
	void *area;
	double *sums, total = 0.0;
	enum op_status status = op_scratch(ctx, &area, blocks * sizeof(double));

	if (status != OP_OK)
		return status;
	sums = area;
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t b = 0; b < blocks; b++) {
		size_t from = b * SUM_BLOCK, to = size_min(n, from + SUM_BLOCK);
		double sum = 0.0;

#pragma omp simd reduction(+ : sum)
		for (size_t i = from; i < to; i++)
			sum += (double)in[i] * (double)in[i];
		sums[b] = sum;
	}
	for (size_t b = 0; b < blocks; b++)
		total += sums[b];
	*out = total;
	return OP_OK;
}

/* Index of the first element in [from, to) whose exponent is all ones, or `to`. */
static size_t
nonfinite_in(const float *in, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += ELEMENT_BLOCK) {
		size_t end = size_min(to, i + ELEMENT_BLOCK);
		uint32_t bad = 0;

#pragma omp simd reduction(| : bad)
		for (size_t j = i; j < end; j++)
			bad |= (float_bits(in[j]) & 0x7f800000) == 0x7f800000 ? 1u : 0u;
		for (size_t j = i; bad != 0 && j < end; j++)
			if ((float_bits(in[j]) & 0x7f800000) == 0x7f800000)
				return j;
	}
	return to;
}

enum op_status
op_first_nonfinite(struct op_context *ctx, size_t *index, const float *in, size_t n)
{
	size_t first = n;

#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static) reduction(min : first)
	for (size_t i = 0; i < n; i += SUM_BLOCK) {
		size_t end = size_min(n, i + SUM_BLOCK);
		size_t found = first < i ? end : nonfinite_in(in, i, end);

		first = found < end ? size_min(first, found) : first;
	}
	*index = first;
	return OP_OK;
}
