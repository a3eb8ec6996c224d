/* Memory that is not there, not written yet, or not the device's. */
#include "planted.h"

__global__ void
read_past(float *out, const float *in, int n, bool bug)
{
	float v = in[threadIdx.x];

	if (bug && threadIdx.x == N - 1)
		v += in[n] * 0.0f;
	out[threadIdx.x] = v;
}

__global__ void
dynamic_past(float *out, int n, bool bug)
{
	DYN_SHARED(float, s);

	s[threadIdx.x] = (float)threadIdx.x;
	if (bug && threadIdx.x == 0)
		s[n] = 1.0f;
	out[threadIdx.x] = s[threadIdx.x];
}

__global__ void
static_past(float *out, int n, bool bug)
{
	__shared__ float s[N];
	float *p = s;

	p[threadIdx.x] = (float)threadIdx.x;
	if (bug && threadIdx.x == 0)
		p[n] = 1.0f;
	out[threadIdx.x] = p[threadIdx.x];
}

__global__ void
unwritten(float *out, bool bug)
{
	if (!bug || threadIdx.x != 7)
		out[threadIdx.x] = (float)threadIdx.x;
}

/* What was never written counts as NaN, also where 0 would do. */
__global__ void
unwritten_shared(float *out, bool bug)
{
	__shared__ float s[N];

	if (!bug)
		s[threadIdx.x] = 0.0f;
	out[threadIdx.x] = (float)threadIdx.x + s[threadIdx.x];
}

__global__ void
unwritten_dynamic(float *out, bool bug)
{
	DYN_SHARED(float, s);

	if (!bug)
		s[threadIdx.x] = 0.0f;
	out[threadIdx.x] = (float)threadIdx.x + s[threadIdx.x];
}

__global__ void
unwritten_memory(float *out, const float *fresh)
{
	out[threadIdx.x] = (float)threadIdx.x + fresh[threadIdx.x];
}

__global__ void
follow(float *out, const float *in)
{
	out[threadIdx.x] = in[threadIdx.x];
}

__global__ void
written(float *out)
{
	if (threadIdx.x < N)
		out[threadIdx.x] = (float)threadIdx.x;
}
static void
run_past(const struct plan *p)
{
	float *exact; /* nothing behind it */

	(void)cudaMalloc((void **)&exact, N * sizeof(float));
	(void)cudaMemcpyAsync(exact, p->in, N * sizeof(float), cudaMemcpyDeviceToDevice, 0);
	LAUNCH(read_past, 1, N, 0, 0, p->out, exact, N, p->bug);
}

static void
run_fresh(const struct plan *p)
{
	float *fresh;

	(void)cudaMalloc((void **)&fresh, N * sizeof(float));
	if (!p->bug)
		(void)cudaMemsetAsync(fresh, 0, N * sizeof(float), 0);
	LAUNCH(unwritten_memory, 1, N, 0, 0, p->out, fresh);
}

static void
run_freed(const struct plan *p)
{
	float *memory;

	(void)cudaMalloc((void **)&memory, N * sizeof(float));
	(void)cudaMemcpyAsync(memory, p->in, N * sizeof(float), cudaMemcpyDeviceToDevice, 0);
	if (p->bug)
		(void)cudaFree(memory);
	LAUNCH(follow, 1, N, 0, 0, p->out, memory);
}

static void
run_host(const struct plan *p)
{
	float host[N];

	LAUNCH(follow, 1, N, 0, 0, p->out, p->bug ? host : p->in);
}

static void
run_host_write(const struct plan *p)
{
	LAUNCH(written, 1, N, 0, 0, p->out);
	if (p->bug)
		*(volatile float *)p->out = 0.0f;
}

#define CASES(X)                                                                                   \
	X(read_past, run_past(p))                                                                  \
	X(dynamic_past, LAUNCH(dynamic_past, 1, N, N * sizeof(float), 0, p->out, N, p->bug))       \
	X(static_past, LAUNCH(static_past, 1, N, 0, 0, p->out, N, p->bug))                         \
	X(unwritten, LAUNCH(unwritten, 1, N, 0, 0, p->out, p->bug))                                \
	X(unwritten_shared, LAUNCH(unwritten_shared, 1, N, 0, 0, p->out, p->bug))                  \
	X(unwritten_dynamic,                                                                       \
	    LAUNCH(unwritten_dynamic, 1, N, N * sizeof(float), 0, p->out, p->bug))                 \
	X(unwritten_memory, run_fresh(p))                                                          \
	X(freed, run_freed(p))                                                                     \
	X(host_pointer, run_host(p))                                                               \
	X(host_writes, run_host_write(p))

PLANTED(memory, CASES)
