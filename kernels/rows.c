/* Rows picked by an index: the embedding, and the supervised rows in front of the output head. */
#include "kernels/context.h"
#include "kernels/element.h"

enum op_status
op_embed(struct op_context *ctx, float *out, const struct op_matrix *table, const int32_t *ids,
    size_t tokens)
{
	size_t width = table->cols;

	for (size_t t = 0; t < tokens; t++)
		if (ids[t] < 0 || (size_t)ids[t] >= table->rows)
			return op_fail(
			    ctx, OP_UNSUPPORTED, "token id %d of %zu", (int)ids[t], table->rows);
#pragma omp parallel for num_threads(op_team(ctx, tokens *width)) schedule(static)
	for (size_t t = 0; t < tokens; t++) {
		size_t from = (size_t)ids[t] * width;
		float *row = out + t * width;

		if (table->dtype == OP_BF16)
			bf16_to_floats(row, (const uint16_t *)table->data + from, width);
		else
			memcpy(row, (const float *)table->data + from, width * sizeof(float));
	}
	return OP_OK;
}

enum op_status
op_gather_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
#pragma omp parallel for num_threads(op_team(ctx, count *width)) schedule(static)
	for (size_t m = 0; m < count; m++)
		memcpy(out + m * width, in + (size_t)rows[m] * width, width * sizeof(float));
	return OP_OK;
}

enum op_status
op_scatter_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
#pragma omp parallel for num_threads(op_team(ctx, count *width)) schedule(static)
	for (size_t m = 0; m < count; m++) {
		float *to = out + (size_t)rows[m] * width;
		const float *from = in + m * width;

#pragma omp simd
		for (size_t i = 0; i < width; i++)
			to[i] += from[i];
	}
	return OP_OK;
}
