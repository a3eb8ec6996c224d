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

#define CASES(X)                                                                                   \
	X(pipe_short_wait, run_pipe(p, SHORT_WAIT))                                                \
	X(pipe_no_commit, run_pipe(p, NO_COMMIT))                                                  \
	X(pipe_no_barrier, run_pipe(p, NO_BARRIER))                                                \
	X(pipe_writes_again, run_pipe(p, WRITES_AGAIN))                                            \
	X(refill_async, LAUNCH(refill_async, 1, N, 0, 0, p->out, p->in, p->bug))                   \
	X(misaligned, LAUNCH(misaligned, 1, N, 0, 0, p->out, p->in, p->bug))                       \
	X(misaligned_copy, LAUNCH(misaligned_copy, 1, N, 0, 0, p->out, p->in, p->bug))             \
	X(shift_past, LAUNCH(shift_past, 1, N, 0, 0, p->out, p->bug))

PLANTED(ptx, CASES)
