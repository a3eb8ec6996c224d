#include "kernels/lora_parts.h"

/* The part of x that stands in a place: what the parts before it leave. */
__device__ __forceinline__ float
part_of(float x, enum lora_order order, size_t place)
{
	for (int part = (int)order >> 2 * place & 3; part > 0; part--)
		x -= __uint_as_float((uint32_t)bf16_bits(x) << 16);
	return x;
}

/* blockIdx.y: the matrix. */
__global__ void
split_kernel(const __grid_constant__ struct lora_splits list)
{
	const float *in = list.split[blockIdx.y].in;
	bf16 *out = list.split[blockIdx.y].out;
	size_t rank = list.split[blockIdx.y].rank, width = list.split[blockIdx.y].width;
	size_t n = list.split[blockIdx.y].n;
	enum lora_order order = list.split[blockIdx.y].order;
	bool below = list.split[blockIdx.y].below;

	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t row = i / width, col = i % width, place = (below ? row : col) / rank;
		size_t from = below ? i % (rank * width) : row * rank + col % rank;

		store(out, i, place < LORA_PLACES ? part_of(in[from], order, place) : 0.0f);
	}
}

/* lora_sums and wide, by pair: rows of all are gridDim.y widths apart. */
struct sum_list {
	struct {
		const float *wide;
		float *sum;
		bf16 *left, *all;
	} pair[OP_LORA_GROUP];
};

/* blockIdx.y: the pair. A thread has one element of left and all; that of the first place writes
   the sum as well. n: elements of a pair. */
__global__ void
sum_kernel(const __grid_constant__ struct sum_list list, size_t rank, size_t width, size_t n)
{
	const float *wide = list.pair[blockIdx.y].wide;
	float *sums = list.pair[blockIdx.y].sum;
	bf16 *left = list.pair[blockIdx.y].left, *all = list.pair[blockIdx.y].all;

	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		size_t row = i / width, col = i % width, place = col / rank, r = col % rank;
		size_t begin = row * width * gridDim.y;
		const float *from = wide + begin + r;
		float sum = 0.0f;

		if (place < LORA_PLACES)
			sum = from[2 * rank] + from[rank] + from[0]; /* smallest first */
		if (place == 0 && sums != NULL)
			sums[row * rank + r] = sum;
		if (left != NULL)
			store(left, begin + col, part_of(sum, LORA_LEFT, place));
		if (all != NULL)
			store(all, begin + col, part_of(sum, LORA_ALL, place));
	}
}

__global__ void
join_kernel(const __grid_constant__ struct lora_joins list)
{
	const float *in = list.join[blockIdx.y].in;
	float *out = list.join[blockIdx.y].out;
	size_t cols = list.join[blockIdx.y].cols, stride = list.join[blockIdx.y].stride;
	size_t step = list.join[blockIdx.y].step, n = list.join[blockIdx.y].n;

	for (size_t i = grid_first(); i < n; i += grid_stride()) {
		const float *from = in + i / cols * stride + i % cols;

		out[i] += from[2 * step] + from[step] + from[0];
	}
}

void
lora_split_below(struct lora_splits *list, bf16 *out, const float *in, size_t rank, size_t cols,
    enum lora_order order)
{
	list->split[list->count++] = {in, out, rank, cols, lora_width(rank) * cols, order, true};
}

void
lora_split_beside(struct lora_splits *list, bf16 *out, const float *in, size_t rows, size_t rank,
    enum lora_order order)
{
	size_t width = lora_width(rank);

	list->split[list->count++] = {in, out, rank, width, rows * width, order, false};
}

enum op_status
lora_split(struct op_context *ctx, const struct lora_splits *list)
{
	size_t most = 1;

	for (size_t i = 0; i < list->count; i++)
		most = size_max(most, list->split[i].n);
	return GPU_RUN(ctx, split_kernel, dim3(gpu_blocks(ctx, most), (unsigned)list->count),
	    GPU_BLOCK, 0, *list);
}

enum op_status
lora_sum(struct op_context *ctx, const struct lora_sums *to, const float *wide, size_t tokens,
    size_t rank, size_t count)
{
	size_t width = lora_width(rank), n = tokens * width;
	struct sum_list list = {};

	for (size_t i = 0; i < count; i++) {
		list.pair[i].wide = wide + i * width;
		list.pair[i].sum = to->sum[i];
		list.pair[i].left = to->left != NULL ? to->left + i * width : NULL;
		list.pair[i].all = to->all != NULL ? to->all + i * width : NULL;
	}
	return GPU_RUN(ctx, sum_kernel, dim3(gpu_blocks(ctx, n), (unsigned)count), GPU_BLOCK, 0,
	    list, rank, width, n);
}

void
lora_join_below(struct lora_joins *list, float *out, const float *in, size_t rank, size_t cols)
{
	list->join[list->count++] = {in, out, cols, cols, rank * cols, rank * cols};
}

void
lora_join_beside(struct lora_joins *list, float *out, const float *in, size_t rows, size_t rank)
{
	list->join[list->count++] = {in, out, rank, lora_width(rank), rank, rows * rank};
}

enum op_status
lora_join(struct op_context *ctx, const struct lora_joins *list)
{
	size_t most = 1;

	for (size_t i = 0; i < list->count; i++)
		most = size_max(most, list->join[i].n);
	return GPU_RUN(ctx, join_kernel, dim3(gpu_blocks(ctx, most), (unsigned)list->count),
	    GPU_BLOCK, 0, *list);
}
