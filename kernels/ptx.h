/*
 * Every line of inline PTX, and loads that need their address aligned. The emulation has a twin of
 * each in tests/cuda-emu/include/emu_ptx.h; what a twin does is tested against the product or copy
 * it stands for. Instructions of sm_80, so that they run on everything later.
 */
#ifndef KERNELS_PTX_H
#define KERNELS_PTX_H

#include <stdint.h>

#include "kernels/launch.h"

#ifdef CUDA_EMU
#include <emu_ptx.h>
#else

/* 16 bytes at once; the address is a multiple of 16. */
template <typename T>
__device__ __forceinline__ T
ld128(const T *from)
{
	static_assert(sizeof(T) == 16, "ld128 reads 16 bytes");
	return *from;
}

template <typename T>
__device__ __forceinline__ void
st128(T *to, T value)
{
	static_assert(sizeof(T) == 16, "st128 writes 16 bytes");
	*to = value;
}

/* 16 bytes of global memory, or 8, by one instruction: copies of structs are taken apart, and not
   always put together again. The address is a multiple of their number. */
__device__ __forceinline__ uint4
ld_global128(const void *from)
{
	uint4 v;

	asm volatile("ld.global.v4.b32 {%0,%1,%2,%3},[%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from)
		     : "memory");
	return v;
}

__device__ __forceinline__ void
st_global128(void *to, uint4 v)
{
	asm volatile(
	    "st.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
	    : "memory");
}

__device__ __forceinline__ uint2
ld_global64(const void *from)
{
	uint2 v;

	asm volatile("ld.global.v2.b32 {%0,%1},[%2];"
		     : "=r"(v.x), "=r"(v.y)
		     : "l"(from)
		     : "memory");
	return v;
}

__device__ __forceinline__ void
st_global64(void *to, uint2 v)
{
	asm volatile("st.global.v2.b32 [%0],{%1,%2};" ::"l"(to), "r"(v.x), "r"(v.y) : "memory");
}

/* float32 to bfloat16, nearest even. */
__device__ __forceinline__ uint16_t
bf16_bits(float x)
{
	uint16_t bits;

	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
	return bits;
}

/* Two of them, `low` in the lower half. */
__device__ __forceinline__ uint32_t
bf16x2_bits(float low, float high)
{
	uint32_t bits;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
	return bits;
}

/* 2^x with a relative error of at most 2^-22; numbers below 2^-126 are 0, in and out (PTX ISA,
   ex2.approx.ftz). */
__device__ __forceinline__ float
exp2_approx(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* d (16, 8) += a (16, 16) b (16, 8), the fragments of mma.m16n8k16 (PTX ISA, 9.7.14.5.8). */
__device__ __forceinline__ void
mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		     "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8x8 matrices of 16-bit elements; lane l brings the address of row l%8 of matrix l/8. */
__device__ __forceinline__ void
ldmatrix_x4(uint32_t r[4], const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
}

/* The same, each matrix transposed. */
__device__ __forceinline__ void
ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
}

/* 16 bytes from global to shared memory, behind the thread's back. */
__device__ __forceinline__ void
cp_async16(void *to, const void *from)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);

	asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(at), "l"(from) : "memory");
}

/* The same, or 16 zero bytes where `there` is false; `from` is not read then. */
__device__ __forceinline__ void
cp_async16_or_zero(void *to, const void *from, bool there)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);

	asm volatile(
	    "cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0)
	    : "memory");
}

/* 8 bytes in the same way; both addresses are multiples of 8. */
__device__ __forceinline__ void
cp_async8_or_zero(void *to, const void *from, bool there)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);

	asm volatile(
	    "cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(at), "l"(from), "r"(there ? 8 : 0)
	    : "memory");
}

__device__ __forceinline__ void
cp_async_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the newest N groups of this thread have arrived. */
template <int N>
__device__ __forceinline__ void
cp_async_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
#endif
