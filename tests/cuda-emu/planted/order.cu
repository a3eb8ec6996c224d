/* Threads that do not wait for each other, or for ever. */
#include "planted.h"

/* Sum of 0..63 by both warps, through shared memory. */
__global__ void
block_sum(float *out, bool bug)
{
	__shared__ float part[2];
	int lane = threadIdx.x & 31;
	float v = (float)threadIdx.x;

	for (int o = 16; o > 0; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	if (lane == 0)
		part[threadIdx.x >> 5] = v;
	if (!bug)
		__syncthreads();
	out[threadIdx.x] = part[0] + part[1] - 2016.0f + (float)threadIdx.x;
}

/* Two tiles one after another through the same shared array. */
__global__ void
refill(float *out, const float *in, bool bug)
{
	__shared__ float tile[N];
	float sum = 0.0f;

	for (int t = 0; t < 2; t++) {
		tile[threadIdx.x] = in[t * N + threadIdx.x];
		__syncthreads();
		sum += tile[N - 1 - threadIdx.x];
		if (!bug)
			__syncthreads();
	}
	out[threadIdx.x] = ((float)(3 * N - 2) - sum) / 2.0f;
}

/* Four blocks add to the same elements. */
__global__ void
add_across_blocks(float *out, bool bug)
{
	float v = (float)threadIdx.x / 4.0f;

	if (bug)
		out[threadIdx.x] += v;
	else
		atomicAdd(&out[threadIdx.x], v);
}

__global__ void
shared_add(float *out, bool bug)
{
	__shared__ int count;

	if (threadIdx.x == 0)
		count = 0;
	__syncthreads();
	if (bug)
		count += 1;
	else
		atomicAdd(&count, 1);
	__syncthreads();
	out[threadIdx.x] = (float)(count - N + (int)threadIdx.x);
}

__global__ void
warp_exchange(float *out, bool bug)
{
	__shared__ float s[N];

	s[threadIdx.x] = (float)threadIdx.x;
	if (!bug)
		__syncwarp();
	out[threadIdx.x ^ 1] = s[threadIdx.x ^ 1];
}

/* A shuffle orders nothing in memory, and a __syncwarp only what its lanes did. */
__global__ void
warp_exchange_half(float *out, bool bug)
{
	__shared__ float s[N];
	int t = threadIdx.x, ones;

	s[t] = (float)t;
	ones = __shfl_xor_sync(0xffffffffu, 1, 1);
	if (!bug)
		__syncwarp();
	else if ((t & 31) < 16)
		__syncwarp(0x0000ffffu);
	out[t ^ 16] = s[t ^ 16] * (float)ones;
}

/* Lanes that name other lanes than these name them. */
__global__ void
other_masks(float *out, bool bug)
{
	if (bug && (threadIdx.x & 31) >= 16)
		__syncwarp(0xffff0000u);
	else
		__syncwarp();
	out[threadIdx.x] = (float)threadIdx.x;
}

__global__ void
not_in_mask(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (threadIdx.x & 1)
		v = __shfl_xor_sync(bug ? 0x55555555u : 0xaaaaaaaau, v, 0);
	out[threadIdx.x] = v;
}

/* Lanes that took the other branch have nothing to give. */
__global__ void
shuffle_from_nowhere(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (!bug || (threadIdx.x & 31) < 16)
		v = __shfl_xor_sync(bug ? 0x0000ffffu : 0xffffffffu, v, bug ? 16 : 0);
	out[threadIdx.x] = v;
}

__global__ void
divergent_barrier(float *out, bool bug)
{
	if (bug && threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	out[threadIdx.x] = (float)threadIdx.x;
}

__global__ void
return_before_barrier(float *out, bool bug)
{
	out[threadIdx.x] = (float)threadIdx.x;
	if (bug && threadIdx.x >= 50)
		return;
	__syncthreads();
}

__global__ void
shuffle_and_barrier(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (bug && threadIdx.x < 8)
		v = __shfl_xor_sync(0xffffffffu, v, 1);
	else
		__syncthreads();
	out[threadIdx.x] = v;
}

#define CASES(X)                                                                                   \
	X(block_sum, LAUNCH(block_sum, 1, N, 0, 0, p->out, p->bug))                                \
	X(refill, LAUNCH(refill, 1, N, 0, 0, p->out, p->in, p->bug))                               \
	X(add_across_blocks, ((void)cudaMemsetAsync(p->out, 0, N * sizeof(float), 0),              \
				 LAUNCH(add_across_blocks, 4, N, 0, 0, p->out, p->bug)))           \
	X(shared_add, LAUNCH(shared_add, 1, N, 0, 0, p->out, p->bug))                              \
	X(warp_exchange, LAUNCH(warp_exchange, 1, N, 0, 0, p->out, p->bug))                        \
	X(warp_exchange_half, LAUNCH(warp_exchange_half, 1, N, 0, 0, p->out, p->bug))              \
	X(other_masks, LAUNCH(other_masks, 1, N, 0, 0, p->out, p->bug))                            \
	X(not_in_mask, LAUNCH(not_in_mask, 1, N, 0, 0, p->out, p->bug))                            \
	X(shuffle_from_nowhere, LAUNCH(shuffle_from_nowhere, 1, N, 0, 0, p->out, p->bug))          \
	X(divergent_barrier, LAUNCH(divergent_barrier, 1, N, 0, 0, p->out, p->bug))                \
	X(return_before_barrier, LAUNCH(return_before_barrier, 1, N, 0, 0, p->out, p->bug))        \
	X(shuffle_and_barrier, LAUNCH(shuffle_and_barrier, 1, N, 0, 0, p->out, p->bug))

PLANTED(order, CASES)
