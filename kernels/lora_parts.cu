#include "kernels/lora_parts.h"

#include "kernels/vector.h"

/* The part of x that stands in a place: what the parts before it leave. */
__device__ __forceinline__ float
part_of(float x, enum lora_order order, size_t place)
{
	for (int part = (int)order >> 2 * place & 3; part > 0; part--)
		x -= __uint_as_float((uint32_t)bf16_bits(x) << 16);
	return x;
}

/* N elements of out, one beside the other: parts of as many of in. */
template <int N>
__device__ __forceinline__ void
split_some(size_t i, const struct lora_splits::matrix &m)
{
	size_t row = i / m.width, col = i - row * m.width, place = (m.below ? row : col) / m.rank;
	floats<N> x = {};

	if (place < LORA_PLACES)
		x = load_some<N>(m.in,
		    m.below ? i - place * m.rank * m.width : row * m.rank + col - place * m.rank);
#pragma unroll
	for (int j = 0; j < N; j++)
		x.at[j] = part_of(x.at[j], m.order, place);
	store_some<N>(m.out, i, x);
}

/* blockIdx.y: the matrix. */
__global__ void
split_kernel(const __grid_constant__ struct lora_splits list)
{
	const struct lora_splits::matrix &m = list.split[blockIdx.y];
	const bool wide = aligned(m.in, m.out) && (m.below ? m.width : m.rank) % 4 == 0;

	GRID_ELEMENTS(4, wide, m.n, split_some, m);
}

/* lora_sums and wide, by pair: rows of wide, left and all are `stride` apart. */
struct sum_list {
	struct pair {
		const float *wide;
		float *sum;
		bf16 *left, *all;
	} pair[OP_LORA_GROUP];
	size_t rank, width, stride;
};

/* N sums, in all their places; who has the first of a row fills it up with zeros. */
template <int N>
__device__ __forceinline__ void
sum_some(size_t i, const struct sum_list &list, const struct sum_list::pair &p)
{
	size_t rank = list.rank, row = i / rank, r = i - row * rank, begin = row * list.stride;
	floats<N> sum = load_some<N>(p.wide, begin + 2 * rank + r); /* smallest first */
	floats<N> middle = load_some<N>(p.wide, begin + rank + r), part;
	floats<N> upper = load_some<N>(p.wide, begin + r);

#pragma unroll
	for (int j = 0; j < N; j++)
		sum.at[j] = sum.at[j] + middle.at[j] + upper.at[j];
	if (p.sum != NULL)
		store_some<N>(p.sum, i, sum);
	for (size_t place = 0; place < LORA_PLACES; place++) {
		size_t at = begin + place * rank + r;

#pragma unroll
		for (int j = 0; j < N; j++)
			part.at[j] = part_of(sum.at[j], LORA_LEFT, place);
		if (p.left != NULL)
			store_some<N>(p.left, at, part);
#pragma unroll
		for (int j = 0; j < N; j++)
			part.at[j] = part_of(sum.at[j], LORA_ALL, place);
		if (p.all != NULL)
			store_some<N>(p.all, at, part);
	}
	for (size_t col = LORA_PLACES * rank; r == 0 && col < list.width; col++) {
		if (p.left != NULL)
			store(p.left, begin + col, 0.0f);
		if (p.all != NULL)
			store(p.all, begin + col, 0.0f);
	}
}

/* blockIdx.y: the pair. n: sums of a pair. */
__global__ void
sum_kernel(const __grid_constant__ struct sum_list list, size_t n)
{
	const struct sum_list::pair &p = list.pair[blockIdx.y];
	const bool wide = aligned(p.wide, p.sum, p.left, p.all) && list.rank % 4 == 0;

	GRID_ELEMENTS(4, wide, n, sum_some, list, p);
}

template <int N>
__device__ __forceinline__ void
join_some(size_t i, const struct lora_joins::matrix &m)
{
	size_t from = i / m.cols * m.stride + i % m.cols;
	floats<N> sum = load_some<N>(m.in, from + 2 * m.step), out = load_some<N>(m.out, i);
	floats<N> middle = load_some<N>(m.in, from + m.step), upper = load_some<N>(m.in, from);

#pragma unroll
	for (int j = 0; j < N; j++)
		out.at[j] += sum.at[j] + middle.at[j] + upper.at[j];
	store_some<N>(m.out, i, out);
}

/* blockIdx.y: the matrix. */
__global__ void
join_kernel(const __grid_constant__ struct lora_joins list)
{
	const struct lora_joins::matrix &m = list.join[blockIdx.y];
	const bool wide = aligned(m.in, m.out) && m.cols % 4 == 0 && m.step % 4 == 0;

	GRID_ELEMENTS(4, wide, m.n, join_some, m);
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
	return GPU_RUN(ctx, split_kernel,
	    dim3(gpu_blocks(ctx, div_up(most, 4)), (unsigned)list->count), GPU_BLOCK, 0, *list);
}

enum op_status
lora_sum(struct op_context *ctx, const struct lora_sums *to, const float *wide, size_t tokens,
    size_t rank, size_t count)
{
	size_t width = lora_width(rank), n = tokens * rank;
	struct sum_list list = {{}, rank, width, count * width};

	for (size_t i = 0; i < count; i++) {
		list.pair[i].wide = wide + i * width;
		list.pair[i].sum = to->sum[i];
		list.pair[i].left = to->left != NULL ? to->left + i * width : NULL;
		list.pair[i].all = to->all != NULL ? to->all + i * width : NULL;
	}
	return GPU_RUN(ctx, sum_kernel, dim3(gpu_blocks(ctx, div_up(n, 4)), (unsigned)count),
	    GPU_BLOCK, 0, list, n);
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
	return GPU_RUN(ctx, join_kernel,
	    dim3(gpu_blocks(ctx, div_up(most, 4)), (unsigned)list->count), GPU_BLOCK, 0, *list);
}
