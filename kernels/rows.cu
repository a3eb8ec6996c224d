/* Rows picked by an index: the embedding, and the supervised rows in front of the output head. */
#include "kernels/staging.h"
#include "kernels/vector.h"

enum { ROW_BLOCK = 128 }; /* threads of a row */

template <int N, typename W>
__device__ __forceinline__ void
embed_some(size_t i, float *out, const W *row, bool known)
{
	store_some<N>(out, i, known ? load_some<N>(row, i) : floats<N>{});
}

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
	BLOCK_ELEMENTS(4, whole_rows(width, out, table), width, embed_some, out + t * width,
	    table + (known ? (size_t)id : 0) * width, known);
}

template <int N>
__device__ __forceinline__ void
copy_some(size_t i, float *out, const float *in)
{
	store_some<N>(out, i, load_some<N>(in, i));
}

__global__ void
gather_kernel(float *out, const float *in, const int32_t *rows, size_t width)
{
	size_t from = (size_t)rows[blockIdx.x] * width, to = blockIdx.x * width;

	BLOCK_ELEMENTS(4, whole_rows(width, out, in), width, copy_some, out + to, in + from);
}

template <int N>
__device__ __forceinline__ void
add_some(size_t i, float *out, const float *in)
{
	floats<N> x = load_some<N>(out, i), y = load_some<N>(in, i);

#pragma unroll
	for (int j = 0; j < N; j++)
		x.at[j] += y.at[j];
	store_some<N>(out, i, x);
}

__global__ void
scatter_kernel(float *out, const float *in, const int32_t *rows, size_t width)
{
	size_t to = (size_t)rows[blockIdx.x] * width, from = blockIdx.x * width;

	BLOCK_ELEMENTS(4, whole_rows(width, out, in), width, add_some, out + to, in + from);
}

enum op_status
op_embed(struct op_context *ctx, float *out, const struct op_matrix *table, const int32_t *ids,
    size_t tokens)
{
	if (tokens == 0)
		return OP_OK;
	if (table->dtype == OP_BF16)
		return GPU_RUN(ctx, embed_kernel<bf16>, (unsigned)tokens, ROW_BLOCK, 0, out,
		    ctx->staging->notes, (const bf16 *)table->data, ids, table->rows, table->cols);
	return GPU_RUN(ctx, embed_kernel<float>, (unsigned)tokens, ROW_BLOCK, 0, out,
	    ctx->staging->notes, (const float *)table->data, ids, table->rows, table->cols);
}

enum op_status
op_gather_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
	if (count == 0)
		return OP_OK;
	return GPU_RUN(ctx, gather_kernel, (unsigned)count, ROW_BLOCK, 0, out, in, rows, width);
}

enum op_status
op_scatter_rows(struct op_context *ctx, float *out, const float *in, const int32_t *rows,
    size_t count, size_t width)
{
	if (count == 0)
		return OP_OK;
	return GPU_RUN(ctx, scatter_kernel, (unsigned)count, ROW_BLOCK, 0, out, in, rows, width);
}
