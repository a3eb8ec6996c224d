/* Instructions used as the hardware does not have them: asynchronous copies, alignment, shifts. */
#include "planted.h"

#include "kernels/ptx.h"

/* Two groups of cp.async; the second one is read after the wait. */
__global__ void
pipe(float *out, const float *in, bool short_wait, bool no_barrier)
{
	__shared__ __align__(16) float s[2][N];
	int t = threadIdx.x;

	if (t < N / 4)
		cp_async16(&s[0][t * 4], in + t * 4);
	cp_async_commit();
	if (t < N / 4)
		cp_async16(&s[1][t * 4], in + N + t * 4);
	cp_async_commit();
	if (short_wait)
		cp_async_wait<1>();
	else
		cp_async_wait<0>();
	if (!no_barrier)
		__syncthreads();
	out[t] = s[1][t] - (float)N + 0.0f * s[0][t];
}

__global__ void
misaligned(float *out, const float *in, bool bug)
{
	float4 v = ld128((const float4 *)(in + (bug ? 1 : 0)));

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * v.x;
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

#define CASES(X)                                                                                   \
	X(pipe_short_wait, LAUNCH(pipe, 1, N, 0, 0, p->out, p->in, p->bug, false))                 \
	X(pipe_no_barrier, LAUNCH(pipe, 1, N, 0, 0, p->out, p->in, false, p->bug))                 \
	X(misaligned, LAUNCH(misaligned, 1, N, 0, 0, p->out, p->in, p->bug))                       \
	X(misaligned_copy, LAUNCH(misaligned_copy, 1, N, 0, 0, p->out, p->in, p->bug))             \
	X(shift_past, LAUNCH(shift_past, 1, N, 0, 0, p->out, p->bug))

PLANTED(ptx, CASES)
