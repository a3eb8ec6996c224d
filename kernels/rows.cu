/* Rows picked by an index: the embedding, and the supervised rows in front of the output head. */
#include "kernels/lanes.h"
#include "kernels/staging.h"

/* One block a row. A token whose id is out of range has zeros, and is noted. */
template <typename W>
__global__ void
embed_kernel(float *out, struct gpu_notes *notes, const W *table, const int32_t *ids, size_t rows,
    size_t width)
{
	size_t t = blockIdx.x;
	int32_t id = ids[t];
	bool known = id >= 0 && (size_t)id < rows;

	if (!known && threadIdx.x == 0)
		atomicMin(&notes->embed, (unsigned)t);
	for (size_t i = threadIdx.x; i < width; i += blockDim.x)
		out[t * width + i] = known ? load(table, (size_t)id * width + i) : 0.0f;
}

__global__ void
gather_kernel(float *out, const float *in, const int32_t *rows, size_t width)
{
	size_t from = (size_t)rows[blockIdx.x] * width, to = blockIdx.x * width;

	for (size_t i = threadIdx.x; i < width; i += blockDim.x)
		out[to + i] = in[from + i];
}

__global__ void
scatter_kernel(float *out, const float *in, const int32_t *rows, size_t width)
{
	size_t to = (size_t)rows[blockIdx.x] * width, from = blockIdx.x * width;

	for (size_t i = threadIdx.x; i < width; i += blockDim.x)
		out[to + i] += in[from + i];
}

enum op_status
op_embed(struct op_context *ctx, float *out, const struct op_matrix *table, const int32_t *ids,
    size_t tokens)
{
	if (tokens == 0)
		return OP_OK;
	if (table->dtype == OP_BF16)
		return GPU_RUN(ctx, embed_kernel<bf16>, (unsigned)tokens, GPU_BLOCK, 0, out,
		    ctx->staging->notes, (const bf16 *)table->data, ids, table->rows, table->cols);
	return GPU_RUN(ctx, embed_kernel<float>, (unsigned)tokens, GPU_BLOCK, 0, out,
	    ctx->staging->notes, (const float *)table->data, ids, table->rows, table->cols);
}

enum op_status
op_gather_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
	if (count == 0)
		return OP_OK;
	return GPU_RUN(ctx, gather_kernel, (unsigned)count, GPU_BLOCK, 0, out, in, rows, width);
}

enum op_status
op_scatter_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
	if (count == 0)
		return OP_OK;
	return GPU_RUN(ctx, scatter_kernel, (unsigned)count, GPU_BLOCK, 0, out, in, rows, width);
}
