/*
 * The instructions of kernels/ptx.h, and the sums of lanes.h, against the text of the PTX ISA:
 * which lane holds which element is computed here once more, from its formulas. On the emulation
 * this tests the twins, on a GPU that the text was understood.
 */
#include "kernels/lanes.h"
#include "tests/unit/test.h"

/* Memory of both sides, n elements of T. */
template <typename T> struct both {
	T *host, *device;
	size_t n;

	explicit both(size_t count) : n(count)
	{
		host = (T *)calloc(n, sizeof(T));
		CHECK(cudaMalloc((void **)&device, n * sizeof(T)) == cudaSuccess);
	}
	~both()
	{
		CHECK(cudaFree(device) == cudaSuccess);
		free(host);
	}
	void copy(bool to_device)
	{
		cudaMemcpyKind kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
		void *to = to_device ? device : host, *from = to_device ? host : device;

		CHECK(cudaMemcpyAsync(to, from, n * sizeof(T), kind, 0) == cudaSuccess);
		CHECK(cudaStreamSynchronize(0) == cudaSuccess);
	}
};

/* One launch on `m`, there and back. */
#define RUN(m, kernel, threads)                                                                    \
	do {                                                                                       \
		(m).copy(true);                                                                    \
		LAUNCH(kernel, 1, threads, 0, 0, (m).device);                                      \
		CHECK(cudaGetLastError() == cudaSuccess);                                          \
		(m).copy(false);                                                                   \
	} while (0)

static uint32_t
next_random(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15u;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 32);
}

/* Of a small integer, which bfloat16 holds. */
static uint32_t
bf16_of(int value)
{
	float x = (float)value;
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits >> 16;
}

struct place {
	int row, col;
};

/* "Matrix fragments for mma.m16n8k16 with floating point type": element i of a lane, the elements
   of a register from the lower half on. */
static struct place
place_a(int lane, int i)
{
	int group = lane >> 2, in_group = lane % 4;
	bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);

	return {upper ? group : group + 8, in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}

static struct place
place_b(int lane, int i)
{
	int group = lane >> 2, in_group = lane % 4;

	return {in_group * 2 + (i & 1) + (i < 2 ? 0 : 8), group};
}

static struct place
place_c(int lane, int i)
{
	int group = lane >> 2, in_group = lane % 4;

	return {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
}

/* Whether the lanes' elements are those of (rows, cols), each once. */
static bool
covers(struct place (*at)(int lane, int i), int elements, int rows, int cols)
{
	int seen[256] = {0};

	for (int lane = 0; lane < 32; lane++)
		for (int i = 0; i < elements; i++) {
			struct place p = at(lane, i);

			if (p.row < 0 || p.row >= rows || p.col < 0 || p.col >= cols)
				return false;
			seen[p.row * cols + p.col]++;
		}
	for (int i = 0; i < rows * cols; i++)
		if (seen[i] != 1)
			return false;
	return true;
}

struct fragments {
	uint32_t a[4], b[2];
	float d[4];
};

__global__ void
mma_kernel(struct fragments *all)
{
	struct fragments f = all[threadIdx.x];

	mma_bf16(f.d, f.a, f.b);
	all[threadIdx.x] = f;
}

/* Integers, so that every sum is exact in whatever order the hardware takes it. */
TEST(mma)
{
	int a[16][16], b[16][8], c[16][8];
	both<struct fragments> lanes(32);

	CHECK(covers(place_a, 8, 16, 16) && covers(place_b, 4, 16, 8) && covers(place_c, 4, 16, 8));
	for (int i = 0; i < 16 * 16; i++)
		a[i / 16][i % 16] = (int)(next_random() % 255) - 127;
	for (int i = 0; i < 16 * 8; i++) {
		b[i / 8][i % 8] = (int)(next_random() % 255) - 127;
		c[i / 8][i % 8] = (int)(next_random() % 20001) - 10000;
	}
	for (int l = 0; l < 32; l++) {
		struct fragments *f = &lanes.host[l];

		for (int i = 0; i < 8; i++)
			f->a[i / 2] |= bf16_of(a[place_a(l, i).row][place_a(l, i).col])
				       << 16 * (i % 2);
		for (int i = 0; i < 4; i++) {
			f->b[i / 2] |= bf16_of(b[place_b(l, i).row][place_b(l, i).col])
				       << 16 * (i % 2);
			f->d[i] = (float)c[place_c(l, i).row][place_c(l, i).col];
		}
	}
	RUN(lanes, mma_kernel, 32);
	for (int l = 0; l < 32; l++)
		for (int i = 0; i < 4; i++) {
			struct place p = place_c(l, i);
			int want = c[p.row][p.col];

			for (int k = 0; k < 16; k++)
				want += a[p.row][k] * b[k][p.col];
			CHECK_MSG(lanes.host[l].d[i] == (float)want, "lane %d, element %d: %g, %d",
			    l, i, (double)lanes.host[l].d[i], want);
		}
}

enum { LOAD_ROWS = 32, LOAD_STRIDE = 24 }; /* elements from row to row: 48 bytes */

struct loads {
	uint16_t memory[LOAD_ROWS * LOAD_STRIDE];
	int at[32]; /* the element whose address a lane brings */
	uint32_t r[32][4], turned[32][4];
};

__global__ void
ldmatrix_kernel(struct loads *l)
{
	__shared__ __align__(16) uint16_t memory[LOAD_ROWS * LOAD_STRIDE];
	int lane = threadIdx.x;
	uint32_t r[4], turned[4];

	for (int i = lane; i < LOAD_ROWS * LOAD_STRIDE; i += 32)
		memory[i] = l->memory[i];
	__syncwarp();
	ldmatrix_x4(r, memory + l->at[lane]);
	ldmatrix_x4_trans(turned, memory + l->at[lane]);
	for (int j = 0; j < 4; j++) {
		l->r[lane][j] = r[j];
		l->turned[lane][j] = turned[j];
	}
}

/* "ldmatrix": threads 0 to 7 bring the rows of the first matrix, 8 to 15 of the second, and so on;
   register j is of matrix j; four consecutive threads load a row. The rows lie anywhere, those of a
   matrix in different banks. */
TEST(ldmatrix)
{
	both<struct loads> l(1);

	for (int i = 0; i < LOAD_ROWS * LOAD_STRIDE; i++)
		l.host->memory[i] = (uint16_t)i;
	for (int lane = 0; lane < 32; lane++)
		l.host->at[lane] = (lane * 11 + 5) % 32 * LOAD_STRIDE + lane / 8 % 2 * 8;
	RUN(l, ldmatrix_kernel, 32);
	for (int lane = 0; lane < 32; lane++)
		for (int j = 0; j < 4; j++)
			for (int i = 0; i < 2; i++) {
				int row = lane / 4, col = lane % 4 * 2 + i;
				int plain = l.host->at[8 * j + row] + col;
				int turned = l.host->at[8 * j + col] + row;

				CHECK_MSG(
				    (l.host->r[lane][j] >> 16 * i & 0xffff) == (uint32_t)plain,
				    "lane %d, matrix %d, element %d", lane, j, i);
				CHECK_MSG((l.host->turned[lane][j] >> 16 * i & 0xffff) ==
					      (uint32_t)turned,
				    "transposed: lane %d, matrix %d, element %d", lane, j, i);
			}
}

struct copies {
	uint4 in[3][64], first[64], out[3][64];
	uint2 half_in[64], half_out[64];
};

/* Each thread copies for another one: three groups, the third of zeros in every other place, and
   with it halves. */
__global__ void
copy_kernel(struct copies *c)
{
	__shared__ uint4 to[3][64];
	__shared__ uint2 half[64];
	int t = threadIdx.x, other = t ^ 33;

	cp_async16(&to[0][other], &c->in[0][other]);
	cp_async_commit();
	cp_async16(&to[1][other], &c->in[1][other]);
	cp_async16_or_zero(&to[2][other], &c->in[2][other], other % 2 == 0);
	cp_async8_or_zero(&half[other], &c->half_in[other], other % 2 == 0);
	cp_async_commit();
	cp_async_wait<1>();
	__syncthreads();
	c->first[t] = ld128(&to[0][t]);
	cp_async_wait<0>();
	__syncthreads();
	for (int g = 0; g < 3; g++)
		st128(&c->out[g][t], ld128(&to[g][t]));
	c->half_out[t] = half[t];
}

TEST(cp_async)
{
	both<struct copies> c(1);
	uint4 zero = {0, 0, 0, 0};

	for (int g = 0; g < 3; g++)
		for (int i = 0; i < 64; i++)
			c.host->in[g][i] = {
			    next_random(), next_random(), next_random(), next_random()};
	for (int i = 0; i < 64; i++)
		c.host->half_in[i] = {next_random(), next_random()};
	RUN(c, copy_kernel, 64);
	CHECK(memcmp(c.host->first, c.host->in[0], sizeof(c.host->first)) == 0);
	CHECK(memcmp(c.host->out, c.host->in, 2 * sizeof(c.host->out[0])) == 0);
	for (int i = 0; i < 64; i++)
		CHECK_MSG(
		    memcmp(&c.host->out[2][i], i % 2 == 0 ? &c.host->in[2][i] : &zero,
			sizeof(zero)) == 0 &&
			memcmp(&c.host->half_out[i],
			    i % 2 == 0 ? (void *)&c.host->half_in[i] : &zero, sizeof(uint2)) == 0,
		    "element %d", i);
}

struct vectors {
	uint32_t in[6 * 32], out[6 * 32];
};

__global__ void
vector_kernel(struct vectors *v)
{
	int t = threadIdx.x;

	st_global128(v->out + 4 * t, ld_global128(v->in + 4 * (t ^ 5)));
	st_global64(v->out + 128 + 2 * t, ld_global64(v->in + 128 + 2 * (t ^ 5)));
}

/* "Vectors": the elements of one lie in memory as they are named, the first one lowest. */
TEST(vectors)
{
	both<struct vectors> v(1);

	for (int i = 0; i < 6 * 32; i++)
		v.host->in[i] = next_random();
	RUN(v, vector_kernel, 32);
	for (int i = 0; i < 6 * 32; i++) {
		int from = i < 128 ? i ^ 5 * 4 : 128 + ((i - 128) ^ 5 * 2);

		CHECK_MSG(v.host->out[i] == v.host->in[from], "element %d", i);
	}
}

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

TEST_MAIN(TEST_CASE(mma), TEST_CASE(ldmatrix), TEST_CASE(cp_async), TEST_CASE(vectors),
    TEST_CASE(powers_of_two), TEST_CASE(rounding), TEST_CASE(sums_of_lanes))
