/*
 * Reductions of a flat buffer to one value on the host: a block reduces its piece in a fixed order,
 * one more goes over the pieces. They wait for the device.
 */
#include "kernels/staging.h"
#include "kernels/vector.h"

enum { PIECE = 16384 };

template <int N>
__device__ __forceinline__ void
add_squares(size_t i, double &sum, const float *in)
{
	floats<N> x = load_some<N>(in, i);

#pragma unroll
	for (int j = 0; j < N; j++)
		sum += (double)x.at[j] * (double)x.at[j];
}

__global__ void
__launch_bounds__(GPU_BLOCK) sum_squares_kernel(double *out, const float *in, size_t n)
{
	__shared__ double part[GPU_BLOCK / 32];
	size_t from = (size_t)blockIdx.x * PIECE, to = from + PIECE < n ? from + PIECE : n;
	double sum = 0.0;

	BLOCK_ELEMENTS(4, aligned(in), to - from, add_squares, sum, in + from);
	sum = block_sum<GPU_BLOCK>(sum, part);
	if (threadIdx.x == 0)
		out[blockIdx.x] = sum;
}

/* *out = the sum of in (n), by one block. */
__global__ void
__launch_bounds__(GPU_BLOCK) sum_pieces_kernel(double *out, const double *in, size_t n)
{
	__shared__ double part[GPU_BLOCK / 32];
	double sum = 0.0;

	for (size_t i = threadIdx.x; i < n; i += GPU_BLOCK)
		sum += in[i];
	sum = block_sum<GPU_BLOCK>(sum, part);
	if (threadIdx.x == 0)
		*out = sum;
}

template <int N>
__device__ __forceinline__ void
find_nonfinite(size_t i, unsigned long long &first, const float *in)
{
	floats<N> x = load_some<N>(in, i);

#pragma unroll
	for (int j = N; j-- > 0;)
		if ((__float_as_uint(x.at[j]) & 0x7f800000u) == 0x7f800000u && i + j < first)
			first = i + j;
}

/* first: of all, in whatever order: the least of integers is the least. */
__global__ void
__launch_bounds__(GPU_BLOCK)
    first_nonfinite_kernel(unsigned long long *first, const float *in, size_t n)
{
	unsigned long long mine = n;

	GRID_ELEMENTS(4, aligned(in), n, find_nonfinite, mine, in);
	if (mine < n)
		atomicMin(first, mine);
}

enum op_status
op_sum_squares(struct op_context *ctx, double *out, const float *in, size_t n)
{
	size_t pieces = div_up(n, PIECE);
	double *sums;
	void *area;

	*out = 0.0;
	if (n == 0)
		return op_sync(ctx);
	GPU_TRY(gpu_scratch(ctx, &area, pieces * sizeof(double)));
	sums = (double *)area;
	GPU_TRY(GPU_RUN(ctx, sum_squares_kernel, (unsigned)pieces, GPU_BLOCK, 0, sums, in, n));
	GPU_TRY(GPU_RUN(
	    ctx, sum_pieces_kernel, 1, GPU_BLOCK, 0, &ctx->staging->notes->sum, sums, pieces));
	GPU_TRY(op_sync(ctx));
	*out = ctx->staging->mirror->sum;
	return OP_OK;
}

enum op_status
op_first_nonfinite(struct op_context *ctx, size_t *index, const float *in, size_t n)
{
	unsigned long long first = n;
	void *area;

	*index = n;
	if (n == 0)
		return OP_OK;
	GPU_TRY(gpu_scratch(ctx, &area, sizeof(first)));
	GPU_TRY(op_upload(ctx, area, &first, sizeof(first)));
	GPU_TRY(GPU_RUN(ctx, first_nonfinite_kernel, gpu_blocks(ctx, div_up(n, 4)), GPU_BLOCK, 0,
	    (unsigned long long *)area, in, n));
	GPU_TRY(op_download(ctx, &first, area, sizeof(first)));
	*index = (size_t)first;
	return OP_OK;
}
