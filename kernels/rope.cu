/*
 * Rotary embedding. Bytes bound: a block has the sines and cosines of some tokens, which cost more
 * than the rotation, once for all heads in shared memory. The accurate sincosf: angles reach the
 * length of the context.
 */
#include "kernels/gpu.h"
#include "kernels/vector.h"

enum {
	BLOCK_PAIRS = 128,   /* angles of a block, unless a token alone has more */
	MOST_PAIRS = 6 << 10 /* of a token: the shared memory that every device has */
};

/* What of x is turned, in the order of the memory: tokens and their heads, each of head_dim. */
struct rope_rows {
	size_t heads, head_dim;
	unsigned half;
	float magnitude, sign;
};

/* N neighbouring pairs at a time of `rows` heads of x, whose first token has its sines at turn[0].
 */
template <int N, typename A>
__device__ __forceinline__ void
turn_rows(A *x, const float2 *turn, const struct rope_rows &r, unsigned rows)
{
	const unsigned pieces = r.half / N;

	for (unsigned i = threadIdx.x; i < rows * pieces; i += blockDim.x) {
		unsigned row = i / pieces, d = i % pieces * N;
		A *pair = x + row * r.head_dim + d;
		const float2 *angle = turn + row / (unsigned)r.heads * r.half + d;
		floats<N> a = load_some<N>(pair, 0), b = load_some<N>(pair, r.half), c, e;

#pragma unroll
		for (int j = 0; j < N; j++) {
			float cosine = angle[j].x, sine = angle[j].y;

			c.at[j] = a.at[j] * cosine - b.at[j] * sine;
			e.at[j] = b.at[j] * cosine + a.at[j] * sine;
		}
		store_some<N>(pair, 0, c);
		store_some<N>(pair, r.half, e);
	}
}

/* A block takes `at_once` tokens. */
template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) rope_kernel(A *x, const int32_t *position, const float *frequency,
    struct rope_rows r, unsigned at_once, size_t tokens)
{
	DYN_SHARED(float2, turn); /* (at_once, half): cosine and sine */
	constexpr int N = in_vector<A>::count;
	const size_t first = (size_t)blockIdx.x * at_once, left = tokens - first;
	const unsigned here = left < at_once ? (unsigned)left : at_once;
	A *rows = x + first * r.heads * r.head_dim;

	for (unsigned i = threadIdx.x; i < here * r.half; i += blockDim.x) {
		float angle = frequency[i % r.half] * (float)position[first + i / r.half];
		float sine, cosine;

		sincosf(angle, &sine, &cosine);
		turn[i].x = cosine * r.magnitude;
		turn[i].y = sine * r.sign * r.magnitude;
	}
	__syncthreads();
	if (r.half % N == 0 && r.head_dim % N == 0 && aligned(x))
		turn_rows<N>(rows, turn, r, here * (unsigned)r.heads);
	else
		turn_rows<1>(rows, turn, r, here * (unsigned)r.heads);
}

enum op_status
op_rope(struct op_context *ctx, void *x, const struct op_packing *packing, const float *frequency,
    size_t half, float magnitude, bool backward, size_t heads, size_t head_dim)
{
	struct rope_rows r = {heads, head_dim, (unsigned)half, magnitude, backward ? -1.0f : 1.0f};
	unsigned at_once, blocks;
	size_t shared;

	if (packing->tokens == 0 || half == 0)
		return OP_OK;
	if (half > MOST_PAIRS)
		return op_fail(ctx, OP_UNSUPPORTED, "rotary embedding of %zu pairs", half);
	at_once = (unsigned)size_max(BLOCK_PAIRS / half, 1);
	blocks = (unsigned)div_up(packing->tokens, at_once);
	shared = at_once * half * sizeof(float2);
	if (ctx->compute == OP_BF16)
		return GPU_RUN(ctx, rope_kernel<bf16>, blocks, GPU_BLOCK, shared, (bf16 *)x,
		    packing->position, frequency, r, at_once, packing->tokens);
	return GPU_RUN(ctx, rope_kernel<float>, blocks, GPU_BLOCK, shared, (float *)x,
	    packing->position, frequency, r, at_once, packing->tokens);
}
