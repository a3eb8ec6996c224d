/* The twins of kernels/ptx.h. A fragment's layout is that of the PTX ISA, 9.7.14.5. */
#ifndef CUDA_EMU_EMU_PTX_H
#define CUDA_EMU_EMU_PTX_H

#include <cuda_runtime.h>

inline void
emu_aligned(const void *p, size_t bytes, const char *what)
{
	if (((uintptr_t)p & (bytes - 1)) != 0)
		emu_die("%s: the address is no multiple of %zu", what, bytes);
}

template <typename T>
inline T
ld128(const T *from)
{
	static_assert(sizeof(T) == 16, "ld128 reads 16 bytes");
	emu_aligned(from, 16, "ld128");
	return *from;
}

template <typename T>
inline void
st128(T *to, T value)
{
	static_assert(sizeof(T) == 16, "st128 writes 16 bytes");
	emu_aligned(to, 16, "st128");
	*to = value;
}

inline uint4
ld_global128(const void *from)
{
	emu_check_pointer("ld_global128", from);
	return ld128((const uint4 *)from);
}

inline void
st_global128(void *to, uint4 v)
{
	emu_check_pointer("st_global128", to);
	st128((uint4 *)to, v);
}

inline uint2
ld_global64(const void *from)
{
	emu_check_pointer("ld_global64", from);
	emu_aligned(from, 8, "ld_global64");
	return *(const uint2 *)from;
}

inline void
st_global64(void *to, uint2 v)
{
	emu_check_pointer("st_global64", to);
	emu_aligned(to, 8, "st_global64");
	*(uint2 *)to = v;
}

inline uint16_t
bf16_bits(float x)
{
	unsigned bits = __float_as_uint(x);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline uint32_t
bf16x2_bits(float low, float high)
{
	return (uint32_t)bf16_bits(low) | (uint32_t)bf16_bits(high) << 16;
}

/* As far off as the hardware may be, up or down by a bit of x: 2^-22 of the result. */
inline float
exp2_approx(float x)
{
	unsigned bits = __float_as_uint(x);
	double off = ((bits ^ bits >> 7) & 1) != 0 ? 0x1p-22 : -0x1p-22, y;

	if ((bits & 0x7f800000) == 0)
		x = 0.0f; /* subnormal */
	y = exp2((double)x) * (1.0 + off);
	return y < 0x1p-126 ? 0.0f : (float)y;
}

/* Tensor cores add a few products at a time to the sum, and cut off what float32 does not hold
   instead of rounding it (Fasi et al. 2021, of the A100; so do later ones). */
enum { EMU_MMA_DEPTH = 8 };

inline float
emu_cut(double sum)
{
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	bits &= ~((UINT64_C(1) << 29) - 1);
	memcpy(&sum, &bits, sizeof(sum));
	return (float)sum;
}

inline float
emu_half(uint32_t pair, int high)
{
	return __uint_as_float(high ? pair & 0xffff0000u : pair << 16);
}

struct emu_mma {
	float *d;
	const uint32_t *a, *b;
};

EMU_UNCHECKED inline void
emu_mma_all(void *const args[32], unsigned lanes)
{
	float a[16][16], b[16][8];

	if (lanes != ~0u)
		emu_die("mma.sync with lanes %08x", lanes);
	for (int l = 0; l < 32; l++) {
		const emu_mma *m = (const emu_mma *)args[l];
		int row = l >> 2, pair = (l & 3) * 2;

		for (int i = 0; i < 8; i++)
			a[row + (i >> 1 & 1) * 8][pair + (i & 1) + (i >> 2) * 8] =
			    emu_half(m->a[i >> 1], i & 1);
		for (int i = 0; i < 4; i++)
			b[pair + (i & 1) + (i >> 1) * 8][row] = emu_half(m->b[i >> 1], i & 1);
	}
	for (int l = 0; l < 32; l++) {
		const emu_mma *m = (const emu_mma *)args[l];

		for (int i = 0; i < 4; i++) {
			const float *left = a[(l >> 2) + (i >> 1) * 8];
			int col = (l & 3) * 2 + (i & 1);
			float sum = m->d[i];

			for (int from = 0; from < 16; from += EMU_MMA_DEPTH) {
				double part = (double)sum;

				for (int k = from; k < from + EMU_MMA_DEPTH; k++)
					part += (double)left[k] * (double)b[k][col];
				sum = emu_cut(part);
			}
			m->d[i] = sum;
		}
	}
}

inline void
mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], int line = __builtin_LINE())
{
	emu_mma me = {d, a, b};

	emu_warp_call(emu_mma_all, &me, ~0u, line);
}

struct emu_load {
	uint16_t row[8]; /* read by its own lane, so the checkers see it */
	unsigned place;	 /* of the eight of 16 bytes that the banks give at once */
	uint32_t *r;
	bool transpose;
};

EMU_UNCHECKED inline void
emu_load_all(void *const args[32], unsigned lanes)
{
	emu_load *const *all = (emu_load *const *)args;

	if (lanes != ~0u)
		emu_die("ldmatrix with lanes %08x", lanes);
	for (int j = 0; j < 32; j += 8) {
		unsigned taken = 0;

		for (int l = j; l < j + 8; l++)
			taken |= 1u << all[l]->place;
		if (taken != 0xff)
			emu_die("ldmatrix: rows %d to %d meet in their banks", j, j + 7);
	}
	for (int l = 0; l < 32; l++)
		for (int j = 0; j < 4; j++) {
			int row = l >> 2, col = (l & 3) * 2;
			bool t = all[l]->transpose;
			uint16_t low = t ? all[j * 8 + col]->row[row] : all[j * 8 + row]->row[col];
			uint16_t high =
			    t ? all[j * 8 + col + 1]->row[row] : all[j * 8 + row]->row[col + 1];

			all[l]->r[j] = low | (uint32_t)high << 16;
		}
}

inline void
emu_ldmatrix(uint32_t r[4], const void *row, bool transpose, int line)
{
	emu_load me;

	me.r = r;
	me.transpose = transpose;
	me.place = (unsigned)((uintptr_t)row >> 4 & 7);
	emu_aligned(row, 16, "ldmatrix");
	emu_check_shared(row, 16, "ldmatrix");
	for (int i = 0; i < 8; i++)
		me.row[i] = ((const uint16_t *)row)[i];
	emu_warp_call(emu_load_all, &me, ~0u, line);
}

inline void
ldmatrix_x4(uint32_t r[4], const void *row, int line = __builtin_LINE())
{
	emu_ldmatrix(r, row, false, line);
}

inline void
ldmatrix_x4_trans(uint32_t r[4], const void *row, int line = __builtin_LINE())
{
	emu_ldmatrix(r, row, true, line);
}

inline void
cp_async16_or_zero(void *to, const void *from, bool there)
{
	emu_aligned(to, 16, "cp.async");
	emu_aligned(from, 16, "cp.async");
	emu_check_shared(to, 16, "cp.async");
	if (there)
		emu_check_pointer("cp.async", from);
	emu_pipe_copy(to, from, there ? 16 : 0, there ? 0 : 16);
}

inline void
cp_async16(void *to, const void *from)
{
	cp_async16_or_zero(to, from, true);
}

inline void
cp_async8_or_zero(void *to, const void *from, bool there)
{
	emu_aligned(to, 8, "cp.async");
	emu_aligned(from, 8, "cp.async");
	emu_check_shared(to, 8, "cp.async");
	if (there)
		emu_check_pointer("cp.async", from);
	emu_pipe_copy(to, from, there ? 8 : 0, there ? 0 : 8);
}

inline void
cp_async_commit(void)
{
	emu_pipe_commit();
}

template <int N>
inline void
cp_async_wait(void)
{
	emu_pipe_wait(N);
}

#endif
