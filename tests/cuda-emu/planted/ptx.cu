/* Instructions used as the hardware does not have them: asynchronous copies, alignment, shifts. */
#include "planted.h"

#include "kernels/ptx.h"

enum pipe_bug { NO_BUG, SHORT_WAIT, NO_COMMIT, NO_BARRIER, WRITES_AGAIN };

/* Two groups of cp.async; the second one is read after the wait. */
__global__ void
pipe(float *out, const float *in, enum pipe_bug bug)
{
	__shared__ __align__(16) float s[2][N];
	int t = threadIdx.x;

	if (t < N / 4)
		cp_async16(&s[0][t * 4], in + t * 4);
	cp_async_commit();
	if (t < N / 4)
		cp_async16(&s[1][t * 4], in + N + t * 4);
	if (bug != NO_COMMIT)
		cp_async_commit();
	if (bug == WRITES_AGAIN && t < N / 4)
		s[1][t * 4] = 0.0f;
	if (bug == SHORT_WAIT)
		cp_async_wait<1>();
	else
		cp_async_wait<0>();
	if (bug != NO_BARRIER)
		__syncthreads();
	out[t] = s[1][t] - (float)N + 0.0f * s[0][t];
}

__global__ void
misaligned(float *out, const float *in, bool bug)
{
	float4 v = ld128((const float4 *)(in + (bug ? 1 : 0)));

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * v.x;
}

/* A tile that the next one is copied over: the other warp may still read it. */
__global__ void
refill_async(float *out, const float *in, bool bug)
{
	__shared__ __align__(16) float tile[N];
	float sum = 0.0f;

	for (int t = 0; t < 2; t++) {
		if (threadIdx.x < N / 4)
			cp_async16(tile + threadIdx.x * 4, in + t * N + threadIdx.x * 4);
		cp_async_commit();
		cp_async_wait<0>();
		__syncthreads();
		sum += tile[N - 1 - threadIdx.x];
		if (!bug)
			__syncthreads();
	}
	out[threadIdx.x] = ((float)(3 * N - 2) - sum) / 2.0f;
}

/* Without ld128, which looks at the address itself. */
__global__ void
misaligned_copy(float *out, const float *in, bool bug)
{
	const float4 *from = (const float4 *)(in + (bug ? 1 : 0));
	float4 v = *from;

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * v.x;
}

/* The last copy begins 4 bytes behind where it may. */
__global__ void
misaligned_async(float *out, const float *in, bool bug)
{
	__shared__ __align__(16) float s[N + 4];
	int t = threadIdx.x;

	if (t < N / 4)
		cp_async16(s + t * 4, in + t * 4 + (bug && t == N / 4 - 1));
	cp_async_commit();
	cp_async_wait<0>();
	__syncthreads();
	out[t] = s[t];
}

/* A copy to device memory: as an address of shared memory it is another one. */
__global__ void
async_to_device(float *out, const float *in, bool bug)
{
	__shared__ __align__(16) float s[N];
	int t = threadIdx.x;

	if (t < N / 4)
		cp_async16((bug ? out : s) + t * 4, in + t * 4);
	cp_async_commit();
	cp_async_wait<0>();
	__syncthreads();
	if (!bug)
		out[t] = s[t];
}

/* out[2 l], out[2 l + 1] = elements l of two matrices whose rows begin at `from`. */
__device__ static void
load_rows(float *out, const uint16_t *from)
{
	int lane = threadIdx.x;
	uint32_t r[4];

	ldmatrix_x4(r, from + lane % 8 * 8);
	out[2 * lane] = (float)(r[0] & 0xffff);
	out[2 * lane + 1] = (float)(r[0] >> 16);
}

/* Rows of one element more than 16 bytes. */
__global__ void
misaligned_rows(float *out, bool bug)
{
	__shared__ __align__(16) uint16_t s[N + 8];

	for (int i = threadIdx.x; i < N + 8; i += 32)
		s[i] = (uint16_t)(bug ? i - 1 : i);
	__syncwarp();
	load_rows(out, s + bug);
}

__global__ void
rows_of_device(float *out, uint16_t *memory, bool bug)
{
	__shared__ __align__(16) uint16_t s[N];

	for (int i = threadIdx.x; i < N; i += 32)
		s[i] = memory[i] = (uint16_t)i;
	__syncwarp();
	load_rows(out, bug ? memory : s);
}

/* An address of shared memory is another one as an address of device memory. */
__global__ void
vector_of_shared(float *out, const float *in, bool bug)
{
	__shared__ __align__(16) float s[N];
	uint4 v;

	s[threadIdx.x] = in[threadIdx.x];
	__syncthreads();
	v = ld_global128(bug ? s : in);
	out[threadIdx.x] = (float)threadIdx.x + 0.0f * __uint_as_float(v.x);
}

/* Of lanes that take different ways, a product is not one of the warp. */
__global__ void
product_of_some(float *out, bool bug)
{
	const uint32_t a[4] = {}, b[2] = {};
	float d[4] = {(float)(2 * threadIdx.x), (float)(2 * threadIdx.x + 1), 0.0f, 0.0f};

	if (!bug || threadIdx.x < 16)
		mma_bf16(d, a, b);
	out[2 * threadIdx.x] = d[0];
	out[2 * threadIdx.x + 1] = d[1];
}

__global__ void
products_of_branches(float *out, bool bug)
{
	const uint32_t a[4] = {}, b[2] = {};
	float d[4] = {(float)(2 * threadIdx.x), (float)(2 * threadIdx.x + 1), 0.0f, 0.0f};

	if (bug && threadIdx.x < 16)
		mma_bf16(d, a, b);
	else
		mma_bf16(d, a, b);
	out[2 * threadIdx.x] = d[0];
	out[2 * threadIdx.x + 1] = d[1];
}

/* Eight rows of an ldmatrix in the same banks, or each in others. */
__global__ void
bank_conflict(float *out, bool bug)
{
	__shared__ __align__(16) uint16_t rows[32 * 72];
	uint32_t r[4];

	for (int i = threadIdx.x; i < 32 * 72; i += N)
		rows[i] = 1;
	__syncthreads();
	ldmatrix_x4(r, rows + (threadIdx.x & 31) * (bug ? 64 : 72));
	out[threadIdx.x] = (float)threadIdx.x + (float)(r[0] & 1) - 1.0f;
}

__global__ void
shift_past(float *out, bool bug)
{
	int by = bug ? 32 + (int)threadIdx.x : 0;

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * (float)(1 << by);
}

static void
run_pipe(const struct plan *p, enum pipe_bug bug)
{
	LAUNCH(pipe, 1, N, 0, 0, p->out, p->in, p->bug ? bug : NO_BUG);
}

static void
run_rows_of_device(const struct plan *p)
{
	uint16_t *memory;

	(void)cudaMalloc((void **)&memory, N * sizeof(*memory));
	LAUNCH(rows_of_device, 1, 32, 0, 0, p->out, memory, p->bug);
}

#define CASES(X)                                                                                   \
	X(pipe_short_wait, run_pipe(p, SHORT_WAIT))                                                \
	X(pipe_no_commit, run_pipe(p, NO_COMMIT))                                                  \
	X(pipe_no_barrier, run_pipe(p, NO_BARRIER))                                                \
	X(pipe_writes_again, run_pipe(p, WRITES_AGAIN))                                            \
	X(refill_async, LAUNCH(refill_async, 1, N, 0, 0, p->out, p->in, p->bug))                   \
	X(misaligned, LAUNCH(misaligned, 1, N, 0, 0, p->out, p->in, p->bug))                       \
	X(misaligned_copy, LAUNCH(misaligned_copy, 1, N, 0, 0, p->out, p->in, p->bug))             \
	X(misaligned_async, LAUNCH(misaligned_async, 1, N, 0, 0, p->out, p->in, p->bug))           \
	X(async_to_device, LAUNCH(async_to_device, 1, N, 0, 0, p->out, p->in, p->bug))             \
	X(misaligned_rows, LAUNCH(misaligned_rows, 1, 32, 0, 0, p->out, p->bug))                   \
	X(bank_conflict, LAUNCH(bank_conflict, 1, N, 0, 0, p->out, p->bug))                        \
	X(rows_of_device, run_rows_of_device(p))                                                   \
	X(vector_of_shared, LAUNCH(vector_of_shared, 1, N, 0, 0, p->out, p->in, p->bug))           \
	X(product_of_some, LAUNCH(product_of_some, 1, 32, 0, 0, p->out, p->bug))                   \
	X(products_of_branches, LAUNCH(products_of_branches, 1, 32, 0, 0, p->out, p->bug))         \
	X(shift_past, LAUNCH(shift_past, 1, N, 0, 0, p->out, p->bug))

PLANTED(ptx, CASES)
