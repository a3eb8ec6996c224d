/*
 * RMSNorm, with or without an addition before it. Bytes bound: a row is read once and stays in
 * registers between the sum over it and what is made of it, with a warp a row up to 1,024 wide, a
 * block up to 8,192. Wider rows, and those that are no whole vectors, are read twice, by a block.
 * Which of them it is depends on the width and on where the arrays begin, never on how many rows
 * there are: so neither do the bits of a row.
 */
#include "kernels/gpu.h"
#include "kernels/vector.h"

enum {
	VECTORS = 8,			     /* of 4 float32 that a thread keeps of a row */
	THREAD_WIDTH = 4 * VECTORS,	     /* of a row */
	WIDTH_OF_WARP = 32 * THREAD_WIDTH,   /* rows up to here: a warp each */
	WIDTH_OF_128 = 128 * THREAD_WIDTH,   /* a block of 128 threads each */
	WIDTH_OF_BLOCK = 256 * THREAD_WIDTH, /* one of 256 */
};

/* Where a row has THREADS: those of a block, its rows, and how many such blocks a multiprocessor
   has to have registers for in backward, which keeps three rows. */
template <int THREADS> struct row_block {
	static constexpr int threads = THREADS == 32 ? 128 : THREADS;
	static constexpr int rows = threads / THREADS;
	static constexpr int blocks = THREADS == 256 ? 2 : 3;
};

/* A thread's part of a row: vectors l, l + THREADS, l + 2 THREADS ... for thread l. */
typedef floats<4> row_part[VECTORS];

/* Where this thread's part begins in a row. */
template <int THREADS>
__device__ __forceinline__ int
part_start(void)
{
	return (int)(threadIdx.x % THREADS) * 4;
}

template <int THREADS, typename A>
__device__ __forceinline__ void
load_row(row_part &part, const A *row, int width)
{
	const A *from = row + part_start<THREADS>();
	const int left = width - part_start<THREADS>();

#pragma unroll
	for (int v = 0; v < VECTORS; v++)
		part[v] =
		    v * THREADS * 4 < left ? load_some<4>(from, v * THREADS * 4) : floats<4>{};
}

template <int THREADS, typename A>
__device__ __forceinline__ void
store_row(A *row, const row_part &part, int width)
{
	A *to = row + part_start<THREADS>();
	const int left = width - part_start<THREADS>();

#pragma unroll
	for (int v = 0; v < VECTORS; v++)
		if (v * THREADS * 4 < left)
			store_some<4>(to, v * THREADS * 4, part[v]);
}

/* part *= weight, or 1 + weight: no more of the weight in registers at a time than there is room.
 */
template <int THREADS>
__device__ __forceinline__ void
scale_row(row_part &part, const float *weight, float one, int width)
{
	const float *from = weight + part_start<THREADS>();
	const int left = width - part_start<THREADS>();

#pragma unroll
	for (int v = 0; v < VECTORS; v++)
		if (v * THREADS * 4 < left) {
			floats<4> w = load_some<4>(from, v * THREADS * 4);

#pragma unroll
			for (int j = 0; j < 4; j++)
				part[v].at[j] *= one + w.at[j];
		}
}

/* The sum over the row of a[i] b[i]. */
template <int THREADS>
__device__ __forceinline__ float
row_dot(const row_part &a, const row_part &b, float *shared)
{
	float sum = 0.0f;

#pragma unroll
	for (int v = 0; v < VECTORS; v++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			sum += a[v].at[j] * b[v].at[j];
	if constexpr (THREADS == 32)
		return lanes_sum<32>(sum);
	else
		return block_sum<THREADS>(sum, shared);
}

/* for every element of a thread's part: vector v, place j in it. */
#define EACH_OF_PART(v, j)                                                                         \
	_Pragma("unroll") for (int v = 0; v < VECTORS; v++)                                        \
	    _Pragma("unroll") for (int j = 0; j < 4; j++)

/* Of x, or of sum = x + branch where branch is not NULL. */
template <typename A, int THREADS>
__global__ void
__launch_bounds__(row_block<THREADS>::threads)
    rmsnorm_rows_kernel(A *out, float *rstd, float *sum, const float *x, const A *branch,
	const float *weight, float epsilon, float one, size_t tokens, int width)
{
	__shared__ float shared[row_block<THREADS>::threads / 32];
	const size_t t = (size_t)blockIdx.x * row_block<THREADS>::rows + threadIdx.x / THREADS;
	const size_t row = t * (size_t)width;
	row_part part, w;
	float scale;

	if (t >= tokens)
		return; /* a whole warp, where there is no barrier */
	load_row<THREADS>(part, x + row, width);
	if (branch != NULL) {
		load_row<THREADS>(w, branch + row, width);
		EACH_OF_PART(v, j) part[v].at[j] += w[v].at[j];
		store_row<THREADS>(sum + row, part, width);
	}
	load_row<THREADS>(w, weight, width);
	scale = row_dot<THREADS>(part, part, shared) / (float)width + epsilon;
	scale = 1.0f / sqrtf(scale);
	if (threadIdx.x % THREADS == 0)
		rstd[t] = scale;
	EACH_OF_PART(v, j) part[v].at[j] = part[v].at[j] * scale * (one + w[v].at[j]);
	store_row<THREADS>(out + row, part, width);
}

/* The same for any row. */
template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) rmsnorm_kernel(A *out, float *rstd, float *sum, const float *x,
    const A *branch, const float *weight, float epsilon, float one, size_t tokens, size_t width)
{
	__shared__ float part[GPU_BLOCK / 32];
	const size_t row = blockIdx.x * width;
	float squares = 0.0f, scale;

	(void)tokens;
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK) {
		float v = x[row + i];

		if (branch != NULL)
			sum[row + i] = v = v + load(branch, row + i);
		squares += v * v;
	}
	squares = block_sum<GPU_BLOCK>(squares, part);
	scale = 1.0f / sqrtf(squares / (float)width + epsilon);
	if (threadIdx.x == 0)
		rstd[blockIdx.x] = scale;
	if (branch != NULL)
		x = sum; /* what this thread wrote itself */
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK)
		store(out, row + i, x[row + i] * scale * (one + weight[i]));
}

/* With y = x r and g = dout w: dx += r (g - y mean(g y)). narrow may be NULL, or dout. */
template <typename A, int THREADS>
__global__ void
__launch_bounds__(row_block<THREADS>::threads, row_block<THREADS>::blocks)
    rmsnorm_backward_rows_kernel(float *dx, A *narrow, const A *dout, const float *x,
	const float *weight, const float *rstd, float one, size_t tokens, int width)
{
	__shared__ float shared[row_block<THREADS>::threads / 32];
	const size_t t = (size_t)blockIdx.x * row_block<THREADS>::rows + threadIdx.x / THREADS;
	const size_t row = t * (size_t)width;
	row_part part, g, to;
	float r, mean;

	if (t >= tokens)
		return; /* a whole warp, where there is no barrier */
	r = rstd[t];
	load_row<THREADS>(part, x + row, width);
	load_row<THREADS>(g, dout + row, width);
	scale_row<THREADS>(g, weight, one, width);
	load_row<THREADS>(to, dx + row, width); /* on its way during the sum */
	mean = __fdividef(row_dot<THREADS>(g, part, shared) * r, (float)width);
	EACH_OF_PART(v, j) to[v].at[j] += r * (g[v].at[j] - part[v].at[j] * r * mean);
	store_row<THREADS>(dx + row, to, width);
	if (narrow != NULL)
		store_row<THREADS>(narrow + row, to, width);
}

template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) rmsnorm_backward_kernel(float *dx, A *narrow, const A *dout,
    const float *x, const float *weight, const float *rstd, float one, size_t tokens, size_t width)
{
	__shared__ float part[GPU_BLOCK / 32];
	const size_t row = blockIdx.x * width;
	float r = rstd[blockIdx.x], sum = 0.0f, mean;

	(void)tokens;
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK)
		sum += load(dout, row + i) * (one + weight[i]) * x[row + i];
	mean = block_sum<GPU_BLOCK>(sum, part) * r / (float)width;
	for (size_t i = threadIdx.x; i < width; i += GPU_BLOCK) {
		float g = load(dout, row + i) * (one + weight[i]);
		float after = dx[row + i] + r * (g - x[row + i] * r * mean);

		dx[row + i] = after;
		if (narrow != NULL)
			store(narrow, row + i, after);
	}
}

/* Whether every row of the arrays is whole vectors, and few enough. */
template <typename... P>
static bool
keeps_rows(size_t width, const P *...array)
{
	return width % 4 == 0 && width <= WIDTH_OF_BLOCK &&
	       ((reinterpret_cast<uintptr_t>(array) | ...) & 15) == 0;
}

#define RUN_ROWS(ctx, name, A, tokens, width, ...)                                                 \
	((width) <= WIDTH_OF_WARP                                                                  \
		? GPU_RUN(ctx, (name<A, 32>), (unsigned)div_up(tokens, row_block<32>::rows),       \
		      row_block<32>::threads, 0, __VA_ARGS__)                                      \
	    : (width) <= WIDTH_OF_128                                                              \
		? GPU_RUN(ctx, (name<A, 128>), (unsigned)(tokens), 128, 0, __VA_ARGS__)            \
		: GPU_RUN(ctx, (name<A, 256>), (unsigned)(tokens), 256, 0, __VA_ARGS__))

template <typename A>
static enum op_status
forward(struct op_context *ctx, void *out, float *rstd, float *sum, const float *x,
    const void *branch, const float *weight, float epsilon, float one, size_t tokens, size_t width)
{
	A *to = (A *)out;
	const A *more = (const A *)branch;

	if (tokens == 0)
		return OP_OK;
	if (!keeps_rows(width, to, sum, x, more, weight))
		return GPU_RUN(ctx, rmsnorm_kernel<A>, (unsigned)tokens, GPU_BLOCK, 0, to, rstd,
		    sum, x, more, weight, epsilon, one, tokens, width);
	return RUN_ROWS(ctx, rmsnorm_rows_kernel, A, tokens, width, to, rstd, sum, x, more, weight,
	    epsilon, one, tokens, (int)width);
}

template <typename A>
static enum op_status
backward(struct op_context *ctx, float *dx, void *narrow, const void *dout, const float *x,
    const float *weight, const float *rstd, float one, size_t tokens, size_t width)
{
	A *to = (A *)narrow;
	const A *from = (const A *)dout;

	if (tokens == 0)
		return OP_OK;
	if (!keeps_rows(width, dx, to, from, x, weight))
		return GPU_RUN(ctx, rmsnorm_backward_kernel<A>, (unsigned)tokens, GPU_BLOCK, 0, dx,
		    to, from, x, weight, rstd, one, tokens, width);
	return RUN_ROWS(ctx, rmsnorm_backward_rows_kernel, A, tokens, width, dx, to, from, x,
	    weight, rstd, one, tokens, (int)width);
}

enum op_status
op_rmsnorm(struct op_context *ctx, void *out, float *rstd, const float *x, const float *weight,
    float epsilon, bool one_plus, size_t tokens, size_t width)
{
	return (ctx->compute == OP_BF16 ? forward<bf16> : forward<float>)(ctx, out, rstd, NULL, x,
	    NULL, weight, epsilon, one_plus ? 1.0f : 0.0f, tokens, width);
}

enum op_status
op_add_rmsnorm(struct op_context *ctx, void *out, float *rstd, float *sum, const float *in,
    const void *branch, const float *weight, float epsilon, bool one_plus, size_t tokens,
    size_t width)
{
	return (ctx->compute == OP_BF16 ? forward<bf16> : forward<float>)(ctx, out, rstd, sum, in,
	    branch, weight, epsilon, one_plus ? 1.0f : 0.0f, tokens, width);
}

enum op_status
op_rmsnorm_backward(struct op_context *ctx, float *dx, void *narrow, const void *dout,
    const float *x, const float *weight, const float *rstd, bool one_plus, size_t tokens,
    size_t width)
{
	return (ctx->compute == OP_BF16 ? backward<bf16> : backward<float>)(ctx, dx, narrow, dout,
	    x, weight, rstd, one_plus ? 1.0f : 0.0f, tokens, width);
}
