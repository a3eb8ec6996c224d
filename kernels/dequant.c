#include "kernels/dequant.h"

#include <string.h>

/* The loops below are short, of fixed length and free of branches: the compiler's vectorizer does
   them well. It is not to contract them: each operation rounds (Makefile). */

const struct dequant_format *
dequant_format(uint32_t type)
{
#define CASE(name, number, elements, bytes)                                                        \
	case number: {                                                                             \
		static const struct dequant_format format = {#name, elements, bytes};              \
		return &format;                                                                    \
	}
	switch (type) {
		DEQUANT_LIST(CASE)
	default:
		return NULL;
	}
#undef CASE
}

const char *
dequant_type_name(uint32_t type)
{
	static const char *const names[] = {[9] = "Q8_1",
	    [10] = "Q2_K",
	    [11] = "Q3_K",
	    [15] = "Q8_K",
	    [16] = "IQ2_XXS",
	    [17] = "IQ2_XS",
	    [18] = "IQ3_XXS",
	    [19] = "IQ1_S",
	    [20] = "IQ4_NL",
	    [21] = "IQ3_S",
	    [22] = "IQ2_S",
	    [23] = "IQ4_XS",
	    [24] = "I8",
	    [25] = "I16",
	    [26] = "I32",
	    [27] = "I64",
	    [28] = "F64",
	    [29] = "IQ1_M",
	    [34] = "TQ1_0",
	    [35] = "TQ2_0",
	    [39] = "MXFP4",
	    [40] = "NVFP4"};
	const struct dequant_format *format = dequant_format(type);

	if (format != NULL)
		return format->name;
	if (type < sizeof(names) / sizeof(names[0]) && names[type] != NULL)
		return names[type];
	return "unknown";
}

static float
float_of_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint32_t
bits_of_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static uint16_t
load16(const unsigned char *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v)); /* little-endian, as the files are */
	return v;
}

/* IEEE half to single, exact: the exponent is rebased by a multiplication with 2^-112, subnormals
   by a subtraction that the hardware normalizes. */
static float
half_to_float(uint16_t half)
{
	uint32_t w = (uint32_t)half << 16, twice = w + w;
	float normal = float_of_bits((twice >> 4) + (0xe0u << 23)) * 0x1p-112f;
	float subnormal = float_of_bits((twice >> 17) | (126u << 23)) - 0.5f;
	uint32_t small = -(uint32_t)(twice < 1u << 27); /* a mask, not a branch: it vectorizes */

	return float_of_bits((w & 0x80000000u) | (bits_of_float(subnormal) & small) |
			     (bits_of_float(normal) & ~small));
}

static float
load_half(const unsigned char *p)
{
	return half_to_float(load16(p));
}

static void
f16_row(float *out, const unsigned char *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = load_half(in + 2 * i);
}

static void
bf16_row(float *out, const unsigned char *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = float_of_bits((uint32_t)load16(in + 2 * i) << 16);
}

/* d half, 16 bytes of nibbles: element i in the low half of byte i, i+16 in the high one. */
static void
q4_0_block(float *out, const unsigned char *in)
{
	float d = load_half(in);

	for (int i = 0; i < 16; i++) {
		out[i] = d * (float)((in[2 + i] & 15) - 8);
		out[i + 16] = d * (float)((in[2 + i] >> 4) - 8);
	}
}

/* d, m half, nibbles. */
static void
q4_1_block(float *out, const unsigned char *in)
{
	float d = load_half(in), m = load_half(in + 2);

	for (int i = 0; i < 16; i++) {
		out[i] = d * (float)(in[4 + i] & 15) + m;
		out[i + 16] = d * (float)(in[4 + i] >> 4) + m;
	}
}

static uint32_t
load32(const unsigned char *p)
{
	return (uint32_t)load16(p) | (uint32_t)load16(p + 2) << 16;
}

/* d half, 32 high bits, nibbles. */
static void
q5_0_block(float *out, const unsigned char *in)
{
	float d = load_half(in);
	uint32_t high = load32(in + 2);

	for (int i = 0; i < 16; i++) {
		int low = (in[6 + i] & 15) | (int)(high >> i & 1) << 4;
		int up = (in[6 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;

		out[i] = d * (float)(low - 16);
		out[i + 16] = d * (float)(up - 16);
	}
}

/* d, m half, 32 high bits, nibbles. */
static void
q5_1_block(float *out, const unsigned char *in)
{
	float d = load_half(in), m = load_half(in + 2);
	uint32_t high = load32(in + 4);

	for (int i = 0; i < 16; i++) {
		int low = (in[8 + i] & 15) | (int)(high >> i & 1) << 4;
		int up = (in[8 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;

		out[i] = d * (float)low + m;
		out[i + 16] = d * (float)up + m;
	}
}

/* d half, 32 signed bytes. */
static void
q8_0_block(float *out, const unsigned char *in)
{
	float d = load_half(in);

	for (int i = 0; i < 32; i++)
		out[i] = (float)(signed char)in[2 + i] * d;
}

/* The 6-bit scale and minimum of sub-block j (of 8), packed in 12 bytes. */
static void
k_scale_min(const unsigned char *p, int j, int *scale, int *min)
{
	if (j < 4) {
		*scale = p[j] & 63;
		*min = p[j + 4] & 63;
	} else {
		*scale = (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
		*min = (p[j + 4] >> 4) | (p[j] >> 6) << 4;
	}
}

/* d, dmin half, 12 bytes of scales, 128 bytes of nibbles: 32 low halves, then the 32 high ones. */
static void
q4_k_block(float *out, const unsigned char *in)
{
	float d = load_half(in), dmin = load_half(in + 2);
	const unsigned char *q = in + 16;

	for (int j = 0; j < 8; j++) {
		int scale, min;
		float ds, dm;

		k_scale_min(in + 4, j, &scale, &min);
		ds = d * (float)scale;
		dm = dmin * (float)min;
		for (int i = 0; i < 32; i++)
			out[32 * j + i] = ds * (float)(q[j / 2 * 32 + i] >> 4 * (j & 1) & 15) - dm;
	}
}

/* As Q4_K, with bit j of 32 bytes as the fifth bit of sub-block j. */
static void
q5_k_block(float *out, const unsigned char *in)
{
	float d = load_half(in), dmin = load_half(in + 2);
	const unsigned char *high = in + 16, *q = in + 48;

	for (int j = 0; j < 8; j++) {
		int scale, min;
		float ds, dm;

		k_scale_min(in + 4, j, &scale, &min);
		ds = d * (float)scale;
		dm = dmin * (float)min;
		for (int i = 0; i < 32; i++) {
			int v = (q[j / 2 * 32 + i] >> 4 * (j & 1) & 15) | (high[i] >> j & 1) << 4;

			out[32 * j + i] = ds * (float)v - dm;
		}
	}
}

/* 128 bytes of nibbles, 64 bytes of two high bits, 16 signed scales, d half: a scale for each 16.
 */
static void
q6_k_block(float *out, const unsigned char *in)
{
	const signed char *scales = (const signed char *)in + 192;
	float d = load_half(in + 208);

	for (int j = 0; j < 16; j++) {
		int half = j / 8, quarter = j / 2 % 4, at = 16 * (j % 2);
		const unsigned char *l = in + 64 * half + 32 * (quarter & 1) + at;
		const unsigned char *h = in + 128 + 32 * half + at;
		float ds = d * (float)scales[j];

		for (int i = 0; i < 16; i++) {
			int v = (l[i] >> 4 * (quarter / 2) & 15) | (h[i] >> 2 * quarter & 3) << 4;

			out[16 * j + i] = ds * (float)(v - 32);
		}
	}
}

typedef void block_fn(float *out, const unsigned char *in);

static void
blocks(float *out, const unsigned char *in, size_t n, size_t elements, size_t bytes, block_fn *fn)
{
	for (size_t i = 0; i < n / elements; i++)
		fn(out + i * elements, in + i * bytes);
}

void
dequant_f32(enum dequant_type type, float *out, const void *in, size_t n)
{
	switch (type) {
	case DEQUANT_F32:
		memcpy(out, in, n * sizeof(float));
		return;
	case DEQUANT_F16:
		f16_row(out, in, n);
		return;
	case DEQUANT_BF16:
		bf16_row(out, in, n);
		return;
	case DEQUANT_Q4_0:
		blocks(out, in, n, 32, 18, q4_0_block);
		return;
	case DEQUANT_Q4_1:
		blocks(out, in, n, 32, 20, q4_1_block);
		return;
	case DEQUANT_Q5_0:
		blocks(out, in, n, 32, 22, q5_0_block);
		return;
	case DEQUANT_Q5_1:
		blocks(out, in, n, 32, 24, q5_1_block);
		return;
	case DEQUANT_Q8_0:
		blocks(out, in, n, 32, 34, q8_0_block);
		return;
	case DEQUANT_Q4_K:
		blocks(out, in, n, 256, 144, q4_k_block);
		return;
	case DEQUANT_Q5_K:
		blocks(out, in, n, 256, 176, q5_k_block);
		return;
	case DEQUANT_Q6_K:
		blocks(out, in, n, 256, 210, q6_k_block);
		return;
	}
}

void
dequant_round_bf16(uint16_t *out, const float *in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = bits_of_float(in[i]);
		uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		uint32_t quiet = bits >> 16 | 0x40;

		out[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
	}
}
