/*
 * The arithmetic of kernels/ptx.h, powers of two and roundings, against the text of the PTX ISA,
 * and the sums of lanes.h against integers. On the emulation this tests the twins, on a GPU that
 * the text was understood.
 */
#include "tests/cuda-emu/one_block.h"

enum { POWERS = 2048 };

struct powers {
	float in[POWERS], out[POWERS];
};

__global__ void
powers_kernel(struct powers *p)
{
	for (int i = threadIdx.x; i < POWERS; i += blockDim.x)
		p->out[i] = exp2_approx(p->in[i]);
}

/* "ex2.approx.ftz": a relative error of 2^-22 at most, half a unit of float32 beside it; subnormal
   numbers are 0, in and out; +0 of -infinity, NaN of NaN. */
TEST(powers_of_two)
{
	static const float edges[] = {0.0f, -0.0f, 0x1p-140f, -1.0f, -126.0f, -127.0f, -150.0f,
	    -INFINITY, NAN, 127.5f, 200.0f};
	both<struct powers> p(1);

	for (int i = 0; i < POWERS; i++)
		p.host->in[i] = i < (int)(sizeof(edges) / sizeof(*edges))
				    ? edges[i]
				    : (float)(next_random() >> 8) * 0x1p-17f - 126.0f;
	RUN(p, powers_kernel, 128);
	for (int i = 0; i < POWERS; i++) {
		double want = exp2((double)p.host->in[i]), got = (double)p.host->out[i];
		bool near = fabs(got - want) <= want * (0x1p-22 + 0x1p-24);

		if (isnan(want))
			near = isnan(got);
		else if (want < 0x1p-126)
			near = got == 0.0 && !signbit(got);
		else if (want < 0x1p-126 * (1.0 + 0x1p-21))
			near |= got == 0.0; /* it was a little less before it was 0 */
		else if (want > 0x1p128)
			near = isinf(got);
		CHECK_MSG(near, "2^%a is %a", (double)p.host->in[i], got);
	}
}

enum { ROUNDED = 4096 };

struct roundings {
	uint32_t in[ROUNDED], pair[ROUNDED];
	uint16_t out[ROUNDED];
};

__global__ void
round_bits_kernel(struct roundings *r)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < ROUNDED; i += blockDim.x) {
		float x = __uint_as_float(r->in[i]), y = __uint_as_float(r->in[i ^ 1]);

		r->out[i] = bf16_bits(x);
		r->pair[i] = bf16x2_bits(x, y);
	}
}

/* The nearer of the two neighbours, of two as near the even one; from half a step behind the
   greatest on infinity; NaN is 0x7fff ("cvt"). In integers: neighbours' bits differ by 1. */
static uint16_t
rounded(uint32_t bits)
{
	uint32_t low = bits & 0xffff, upper = bits >> 16;

	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fff;
	return (uint16_t)(low > 0x8000 || (low == 0x8000 && upper % 2 == 1) ? upper + 1 : upper);
}

TEST(rounding)
{
	static const uint32_t edges[] = {0, 0x80000000, 1, 0x7fff, 0x8000, 0x8001, 0x17fff, 0x18000,
	    0x7f7fffff, 0x7f7f7fff, 0x7f7f8000, 0xff7f8000, 0x7f800000, 0xff800000, 0x7f800001,
	    0xffc00000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f7fffff, 0x007f8000, 0x007fffff};
	both<struct roundings> r(1);

	for (int i = 0; i < ROUNDED; i++)
		r.host->in[i] = i < (int)(sizeof(edges) / 4) ? edges[i] : next_random();
	RUN(r, round_bits_kernel, 128);
	for (int i = 0; i < ROUNDED; i++) {
		uint32_t want = rounded(r.host->in[i]);

		CHECK_MSG(r.host->out[i] == want, "%08x becomes %04x", r.host->in[i],
		    (unsigned)r.host->out[i]);
		want |= (uint32_t)rounded(r.host->in[i ^ 1]) << 16;
		CHECK_MSG(r.host->pair[i] == want, "%08x and the next become %08x", r.host->in[i],
		    r.host->pair[i]);
	}
}

struct lane_sums {
	float in, of4, of8, of32, most4, block;
};

__global__ void
lanes_kernel(struct lane_sums *all)
{
	__shared__ float part[4];
	struct lane_sums s = all[threadIdx.x];

	s.of4 = lanes_sum<4>(s.in);
	s.of8 = lanes_sum<8>(s.in);
	s.of32 = lanes_sum<32>(s.in);
	s.most4 = lanes_max<4>(threadIdx.x == 9 ? NAN : s.in);
	s.block = block_sum<128>(s.in, part);
	all[threadIdx.x] = s;
}

TEST(sums_of_lanes)
{
	both<struct lane_sums> s(128);
	int total = 0;

	for (int i = 0; i < 128; i++) {
		s.host[i].in = (float)(i * i);
		total += i * i;
	}
	RUN(s, lanes_kernel, 128);
	for (int i = 0; i < 128; i++) {
		int of4 = 0, of8 = 0, of32 = 0;

		for (int j = 0; j < 128; j++) {
			of4 += j / 4 == i / 4 ? j * j : 0;
			of8 += j / 8 == i / 8 ? j * j : 0;
			of32 += j / 32 == i / 32 ? j * j : 0;
		}
		CHECK_MSG(s.host[i].of4 == (float)of4 && s.host[i].of8 == (float)of8 &&
			      s.host[i].of32 == (float)of32 && s.host[i].block == (float)total,
		    "thread %d", i);
		if (i / 4 == 9 / 4)
			CHECK_MSG(isnan(s.host[i].most4), "thread %d: a NaN is lost", i);
		else
			CHECK(s.host[i].most4 == (float)((i | 3) * (i | 3)));
	}
}

TEST_MAIN(TEST_CASE(powers_of_two), TEST_CASE(rounding), TEST_CASE(sums_of_lanes))
