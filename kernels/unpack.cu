/*
 * Elements as files store them, unpacked on the device: of quantized types ggml's blocks, see
 * dequant.c for what is in them. A thread an element, so that what is written is coalesced; each
 * operation rounds by itself, as there. Of NaN a device keeps no more than that it is one.
 *
 * Bound: bytes, and far above the bus that the blocks came over.
 */
#include "kernels/dequant.h"
#include "kernels/gpu.h"
#include "kernels/lanes.h"

static __device__ unsigned
load16(const unsigned char *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

static __device__ unsigned
load32(const unsigned char *p)
{
	return load16(p) | load16(p + 2) << 16;
}

/* IEEE half to single, exact: as half_to_float of dequant.c. */
static __device__ float
load_half(const unsigned char *p)
{
	unsigned w = load16(p) << 16, twice = w + w;
	float normal = __fmul_rn(__uint_as_float((twice >> 4) + (0xe0u << 23)), 0x1p-112f);
	float subnormal = __fadd_rn(__uint_as_float((twice >> 17) | (126u << 23)), -0.5f);
	unsigned bits = __float_as_uint(twice < 1u << 27 ? subnormal : normal);

	return __uint_as_float((w & 0x80000000u) | bits);
}

/* Element i of the nibbles of a block of 32. */
static __device__ int
nibble(const unsigned char *q, unsigned i)
{
	return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

/* The same with the i-th of 32 high bits above. */
static __device__ int
five_bits(const unsigned char *high, const unsigned char *q, unsigned i)
{
	return nibble(q, i) | (int)(load32(high) >> i & 1) << 4;
}

static __device__ float
scaled(float d, int v)
{
	return __fmul_rn(d, (float)v);
}

/* The 6-bit scale and minimum of sub-block j (of 8), packed in 12 bytes. */
static __device__ void
k_scale_min(const unsigned char *p, unsigned j, int *scale, int *min)
{
	if (j < 4) {
		*scale = p[j] & 63;
		*min = p[j + 4] & 63;
	} else {
		*scale = (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
		*min = (p[j + 4] >> 4) | (p[j] >> 6) << 4;
	}
}

/* Q4_K, and Q5_K where `high` has the fifth bits. */
static __device__ float
k_value(const unsigned char *b, const unsigned char *high, const unsigned char *q, unsigned i)
{
	unsigned j = i / 32, at = i % 32;
	int scale, min, v = q[j / 2 * 32 + at] >> 4 * (j & 1) & 15;

	if (high != NULL)
		v |= (high[at] >> j & 1) << 4;
	k_scale_min(b + 4, j, &scale, &min);
	return __fsub_rn(scaled(scaled(load_half(b), scale), v), scaled(load_half(b + 2), min));
}

static __device__ float
q6_k_value(const unsigned char *b, unsigned i)
{
	unsigned j = i / 16, half = j / 8, quarter = j / 2 % 4, at = 16 * (j % 2) + i % 16;
	int low = b[64 * half + 32 * (quarter & 1) + at] >> 4 * (quarter / 2) & 15;
	int high = b[128 + 32 * half + at] >> 2 * quarter & 3;

	return scaled(scaled(load_half(b + 208), (signed char)b[192 + j]), (low | high << 4) - 32);
}

/* Element i of the block at b. */
static __device__ float
value(int type, const unsigned char *b, unsigned i)
{
	switch (type) {
	case DEQUANT_F32:
		return __uint_as_float(load32(b));
	case DEQUANT_F16:
		return load_half(b);
	case DEQUANT_BF16:
		return __uint_as_float(load16(b) << 16);
	case DEQUANT_Q4_0:
		return scaled(load_half(b), nibble(b + 2, i) - 8);
	case DEQUANT_Q4_1:
		return __fadd_rn(scaled(load_half(b), nibble(b + 4, i)), load_half(b + 2));
	case DEQUANT_Q5_0:
		return scaled(load_half(b), five_bits(b + 2, b + 6, i) - 16);
	case DEQUANT_Q5_1:
		return __fadd_rn(
		    scaled(load_half(b), five_bits(b + 4, b + 8, i)), load_half(b + 2));
	case DEQUANT_Q8_0:
		return scaled(load_half(b), (signed char)b[2 + i]);
	case DEQUANT_Q4_K:
		return k_value(b, NULL, b + 16, i);
	case DEQUANT_Q5_K:
		return k_value(b, b + 16, b + 48, i);
	default:
		return q6_k_value(b, i);
	}
}

static __device__ void
put(float *out, size_t i, float x)
{
	out[i] = x;
}

/* As dequant_round_bf16. */
static __device__ void
put(uint16_t *out, size_t i, float x)
{
	unsigned bits = __float_as_uint(x);
	unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	out[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40 : rounded);
}

template <typename T>
__global__ void
__launch_bounds__(GPU_BLOCK) unpack_kernel(
    T *out, const unsigned char *in, int type, unsigned block, unsigned bytes, size_t n)
{
	for (size_t i = grid_first(); i < n; i += grid_stride())
		put(out, i, value(type, in + i / block * bytes, (unsigned)(i % block)));
}

enum op_status
op_unpack(struct op_context *ctx, void *out, enum op_dtype as, const void *in, int type, size_t n)
{
	const struct dequant_format *f = dequant_format((uint32_t)type);

	if (f == NULL || n % f->block != 0)
		return op_fail(ctx, OP_UNSUPPORTED, "%zu elements of type %d", n, type);
	if (n == 0)
		return OP_OK;
	if (as == OP_BF16)
		return GPU_RUN(ctx, unpack_kernel<uint16_t>, gpu_blocks(ctx, n), GPU_BLOCK, 0,
		    (uint16_t *)out, (const unsigned char *)in, type, (unsigned)f->block,
		    (unsigned)f->bytes, n);
	return GPU_RUN(ctx, unpack_kernel<float>, gpu_blocks(ctx, n), GPU_BLOCK, 0, (float *)out,
	    (const unsigned char *)in, type, (unsigned)f->block, (unsigned)f->bytes, n);
}
