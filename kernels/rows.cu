/* Rows picked by an index: the embedding, and the supervised rows in front of the output head. */
#include "kernels/gpu.h"
#include "kernels/lanes.h"

/* One block a row. bad: the first token whose id is out of range. */
template <typename W>
__global__ void
embed_kernel(
    float *out, unsigned *bad, const W *table, const int32_t *ids, size_t rows, size_t width)
{
	size_t t = blockIdx.x;
	int32_t id = ids[t];

	if (id < 0 || (size_t)id >= rows) {
		if (threadIdx.x == 0)
			atomicMin(bad, (unsigned)t);
		return;
	}
	for (size_t i = threadIdx.x; i < width; i += blockDim.x)
		out[t * width + i] = load(table, (size_t)id * width + i);
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

/* Waits for the device, to say which token is wrong. */
enum op_status
op_embed(struct op_context *ctx, float *out, const struct op_matrix *table, const int32_t *ids,
    size_t tokens)
{
	unsigned none = 0xffffffffu, bad = none;
	void *area;
	unsigned *flag;

	if (tokens == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &area, sizeof(*flag)));
	flag = (unsigned *)area;
	GPU_TRY(op_upload(ctx, flag, &none, sizeof(none)));
	if (table->dtype == OP_BF16)
		GPU_TRY(GPU_RUN(ctx, embed_kernel<bf16>, (unsigned)tokens, GPU_BLOCK, 0, out, flag,
		    (const bf16 *)table->data, ids, table->rows, table->cols));
	else
		GPU_TRY(GPU_RUN(ctx, embed_kernel<float>, (unsigned)tokens, GPU_BLOCK, 0, out, flag,
		    (const float *)table->data, ids, table->rows, table->cols));
	GPU_TRY(op_download(ctx, &bad, flag, sizeof(bad)));
	if (bad != none)
		return op_fail(
		    ctx, OP_UNSUPPORTED, "the id of token %u is none of %zu", bad, table->rows);
	return OP_OK;
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
