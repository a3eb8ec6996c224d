/*
 * What kernels share: elements of the activation type, and sums over a warp or a block in a fixed
 * order.
 */
#ifndef KERNELS_LANES_H
#define KERNELS_LANES_H

#include "kernels/ptx.h"

struct bf16 {
	uint16_t bits;
};

__device__ __forceinline__ float
load(const float *p, size_t i)
{
	return p[i];
}

__device__ __forceinline__ float
load(const bf16 *p, size_t i)
{
	return __uint_as_float((uint32_t)p[i].bits << 16);
}

__device__ __forceinline__ void
store(float *p, size_t i, float x)
{
	p[i] = x;
}

__device__ __forceinline__ void
store(bf16 *p, size_t i, float x)
{
	p[i].bits = bf16_bits(x);
}

/* Element i of the grid's threads, and the distance to the next one of this thread. */
__device__ __forceinline__ size_t
grid_first(void)
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ size_t
grid_stride(void)
{
	return (size_t)gridDim.x * blockDim.x;
}

/* Over `WIDTH` neighbouring lanes, a power of two; every lane gets it. All lanes of the warp call.
 */
template <int WIDTH, typename T>
__device__ __forceinline__ T
lanes_sum(T v)
{
#pragma unroll
	for (int o = WIDTH / 2; o > 0; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	return v;
}

template <int WIDTH>
__device__ __forceinline__ float
lanes_max(float v)
{
#pragma unroll
	for (int o = WIDTH / 2; o > 0; o >>= 1) {
		float other = __shfl_xor_sync(0xffffffffu, v, o);

		v = other > v || other != other ? other : v; /* a NaN stays */
	}
	return v;
}

/* Over a block of THREADS; every thread gets it. `part` (THREADS / 32) in shared memory, free again
   after the next barrier. */
template <int THREADS, typename T>
__device__ __forceinline__ T
block_sum(T v, T *part)
{
	v = lanes_sum<32>(v);
	if ((threadIdx.x & 31) == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	v = part[0];
#pragma unroll
	for (int i = 1; i < THREADS / 32; i++)
		v += part[i];
	return v;
}

template <int THREADS>
__device__ __forceinline__ float
block_max(float v, float *part)
{
	v = lanes_max<32>(v);
	if ((threadIdx.x & 31) == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	v = part[0];
#pragma unroll
	for (int i = 1; i < THREADS / 32; i++)
		v = part[i] > v || part[i] != part[i] ? part[i] : v;
	return v;
}

#endif
