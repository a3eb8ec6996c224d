/*
 * The instructions of kernels/ptx.h that move and multiply against the text of the PTX ISA: which
 * lane holds which element is computed here once more, from its formulas. On the emulation this
 * tests the twins, on a GPU that the text was understood. Those that compute: arithmetic.cu.
 */
#include "tests/cuda-emu/one_block.h"

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

TEST_MAIN(TEST_CASE(mma), TEST_CASE(ldmatrix), TEST_CASE(cp_async), TEST_CASE(vectors))
