/*
 * Several neighbouring elements at once, as float32 in registers.
 *
 * Memory bounds the kernels that go over elements, and a thread that asks for 2 bytes at a time
 * asks for too little to keep it busy: here an access has 16 bytes, 4 float32 or 8 bfloat16. Where
 * a kernel reads arrays of both types its threads take 4 elements, so that the float32 ones, most
 * of its bytes, are 16 bytes of each thread beside those of the next; the others are 8.
 *
 * Callers promise no such alignment: a kernel asks `aligned` about its arrays and goes over them
 * one by one where it is missing. What an element becomes is the same both ways.
 */
#ifndef KERNELS_VECTOR_H
#define KERNELS_VECTOR_H

#include "kernels/lanes.h"

template <int N> struct floats {
	float at[N];
};

/* Elements of the type in 16 bytes. */
template <typename A> struct in_vector {
	static constexpr int count = 16 / (int)sizeof(A);
};

/* Whether every one of the arrays begins at a multiple of 16 bytes. */
template <typename... P>
__device__ __forceinline__ bool
aligned(const P *...array)
{
	return ((reinterpret_cast<uintptr_t>(array) | ...) & 15) == 0;
}

/* The same of all their rows of `width` elements, or of several numbers or-ed together, for 4 at a
   time. */
template <typename... P>
__device__ __forceinline__ bool
whole_rows(size_t width, const P *...array)
{
	return width % 4 == 0 && aligned(array...);
}

/* Elements i .. i+N-1 of p: N is 1, or 4, of bfloat16 also 8, and then p + i a multiple of N
   elements. */
template <int N>
__device__ __forceinline__ floats<N>
load_some(const float *p, size_t i)
{
	floats<N> x;

	if constexpr (N == 1) {
		x.at[0] = p[i];
	} else {
		static_assert(N == 4, "a vector of float32");
		uint4 v = ld_global128(p + i);

		x.at[0] = __uint_as_float(v.x), x.at[1] = __uint_as_float(v.y);
		x.at[2] = __uint_as_float(v.z), x.at[3] = __uint_as_float(v.w);
	}
	return x;
}

__device__ __forceinline__ void
floats_of_pair(float *x, uint32_t pair)
{
	x[0] = __uint_as_float(pair << 16);
	x[1] = __uint_as_float(pair & 0xffff0000u);
}

template <int N>
__device__ __forceinline__ floats<N>
load_some(const bf16 *p, size_t i)
{
	floats<N> x;

	if constexpr (N == 1) {
		x.at[0] = load(p, i);
	} else if constexpr (N == 4) {
		uint2 v = ld_global64(p + i);

		floats_of_pair(x.at, v.x);
		floats_of_pair(x.at + 2, v.y);
	} else {
		static_assert(N == 8, "a vector of bfloat16");
		uint4 v = ld_global128(p + i);

		floats_of_pair(x.at, v.x);
		floats_of_pair(x.at + 2, v.y);
		floats_of_pair(x.at + 4, v.z);
		floats_of_pair(x.at + 6, v.w);
	}
	return x;
}

template <int N>
__device__ __forceinline__ void
store_some(float *p, size_t i, const floats<N> &x)
{
	if constexpr (N == 1)
		p[i] = x.at[0];
	else
		st_global128(p + i, uint4{__float_as_uint(x.at[0]), __float_as_uint(x.at[1]),
					__float_as_uint(x.at[2]), __float_as_uint(x.at[3])});
}

template <int N>
__device__ __forceinline__ void
store_some(bf16 *p, size_t i, const floats<N> &x)
{
	if constexpr (N == 1)
		store(p, i, x.at[0]);
	else if constexpr (N == 4)
		st_global64(
		    p + i, uint2{bf16x2_bits(x.at[0], x.at[1]), bf16x2_bits(x.at[2], x.at[3])});
	else
		st_global128(
		    p + i, uint4{bf16x2_bits(x.at[0], x.at[1]), bf16x2_bits(x.at[2], x.at[3]),
			       bf16x2_bits(x.at[4], x.at[5]), bf16x2_bits(x.at[6], x.at[7])});
}

/*
 * Calls some<N>(i, arguments...) for N elements from i at a time where `wide`, some<1> for those
 * that are left: for all of 0 .. n-1, shared out among the threads of the grid, or of the block.
 * So many threads as a multiprocessor holds have enough of these loads under way.
 */
#define SOME_OF(first, stride, N, wide, n, some, ...)                                              \
	do {                                                                                       \
		const size_t some_whole = (wide) ? (n) / (N) * (N) : 0;                            \
		for (size_t some_i = (first) * (N); some_i < some_whole; some_i += (stride) * (N)) \
			some<N>(some_i, __VA_ARGS__);                                              \
		for (size_t some_i = some_whole + (first); some_i < (n); some_i += (stride))       \
			some<1>(some_i, __VA_ARGS__);                                              \
	} while (0)
#define GRID_ELEMENTS(...) SOME_OF(grid_first(), grid_stride(), __VA_ARGS__)
#define BLOCK_ELEMENTS(...) SOME_OF((size_t)threadIdx.x, (size_t)blockDim.x, __VA_ARGS__)

#endif
