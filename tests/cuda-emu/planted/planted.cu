/*
 * Kernels with one planted bug each, for the test of the emulation itself: `planted NAME` runs one
 * and exits 0 if its output is right, 1 if it is wrong, else as the checker that stopped it.
 * `planted right` runs all of them without their bugs.
 */
#include <stdio.h>
#include <string.h>

#include <cublas_v2.h>

#include "kernels/launch.h"
#include "kernels/ptx.h"

enum { N = 64 };

struct plan {
	float *out;	 /* (N) on the device; element i has to become want(i) */
	const float *in; /* (4 N): in[i] = i */
	bool bug;
};

/* Sum of 0..63 by both warps, through shared memory. */
__global__ void
block_sum(float *out, bool bug)
{
	__shared__ float part[2];
	int lane = threadIdx.x & 31;
	float v = (float)threadIdx.x;

	for (int o = 16; o > 0; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	if (lane == 0)
		part[threadIdx.x >> 5] = v;
	if (!bug)
		__syncthreads();
	out[threadIdx.x] = part[0] + part[1] - 2016.0f + (float)threadIdx.x;
}

/* Two tiles one after another through the same shared array. */
__global__ void
refill(float *out, const float *in, bool bug)
{
	__shared__ float tile[N];
	float sum = 0.0f;

	for (int t = 0; t < 2; t++) {
		tile[threadIdx.x] = in[t * N + threadIdx.x];
		__syncthreads();
		sum += tile[N - 1 - threadIdx.x];
		if (!bug)
			__syncthreads();
	}
	out[threadIdx.x] = ((float)(3 * N - 2) - sum) / 2.0f;
}

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

/* Four blocks add to the same elements. */
__global__ void
add_across_blocks(float *out, bool bug)
{
	float v = (float)threadIdx.x / 4.0f;

	if (bug)
		out[threadIdx.x] += v;
	else
		atomicAdd(&out[threadIdx.x], v);
}

__global__ void
shared_add(float *out, bool bug)
{
	__shared__ int count;

	if (threadIdx.x == 0)
		count = 0;
	__syncthreads();
	if (bug)
		count += 1;
	else
		atomicAdd(&count, 1);
	__syncthreads();
	out[threadIdx.x] = (float)(count - N + (int)threadIdx.x);
}

__global__ void
warp_exchange(float *out, bool bug)
{
	__shared__ float s[N];

	s[threadIdx.x] = (float)threadIdx.x;
	if (!bug)
		__syncwarp();
	out[threadIdx.x ^ 1] = s[threadIdx.x ^ 1];
}

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
not_in_mask(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (threadIdx.x & 1)
		v = __shfl_xor_sync(bug ? 0x55555555u : 0xaaaaaaaau, v, 0);
	out[threadIdx.x] = v;
}

/* Lanes that took the other branch have nothing to give. */
__global__ void
shuffle_from_nowhere(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (!bug || (threadIdx.x & 31) < 16)
		v = __shfl_xor_sync(bug ? 0x0000ffffu : 0xffffffffu, v, bug ? 16 : 0);
	out[threadIdx.x] = v;
}

__global__ void
divergent_barrier(float *out, bool bug)
{
	if (bug && threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	out[threadIdx.x] = (float)threadIdx.x;
}

__global__ void
return_before_barrier(float *out, bool bug)
{
	out[threadIdx.x] = (float)threadIdx.x;
	if (bug && threadIdx.x >= 50)
		return;
	__syncthreads();
}

__global__ void
shuffle_and_barrier(float *out, bool bug)
{
	float v = (float)threadIdx.x;

	if (bug && threadIdx.x < 8)
		v = __shfl_xor_sync(0xffffffffu, v, 1);
	else
		__syncthreads();
	out[threadIdx.x] = v;
}

__global__ void
misaligned(float *out, const float *in, bool bug)
{
	float4 v = ld128((const float4 *)(in + (bug ? 1 : 0)));

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * v.x;
}

__global__ void
shift_past(float *out, bool bug)
{
	int by = bug ? 32 + (int)threadIdx.x : 0;

	out[threadIdx.x] = (float)threadIdx.x + 0.0f * (float)(1 << by);
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
follow(float *out, const float *in)
{
	out[threadIdx.x] = in[threadIdx.x];
}

__global__ void
identity(float *out)
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
	LAUNCH(identity, 1, N, 0, 0, p->out);
	if (p->bug)
		*(volatile float *)p->out = 0.0f;
}

/* out (N, 1) = in (N, 1) . in[1]: a workspace that begins `shift` bytes into its memory. */
static void
run_product(const struct plan *p, size_t shift, bool stream_after)
{
	const float one = 1.0f, zero = 0.0f;
	cublasHandle_t blas;
	char *workspace;

	(void)cudaMalloc((void **)&workspace, 4096);
	(void)cublasCreate(&blas);
	(void)cublasSetStream(blas, 0);
	(void)cublasSetWorkspace(blas, workspace + shift, 2048);
	if (stream_after)
		(void)cublasSetStream(blas, 0);
	(void)cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, 1, 1, &one, p->in, CUDA_R_32F, N,
	    p->in + 1, CUDA_R_32F, 1, &zero, p->out, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
	    CUBLAS_GEMM_DEFAULT);
	(void)cublasDestroy(blas);
}

#define CASES(X)                                                                                   \
	X(block_sum, LAUNCH(block_sum, 1, N, 0, 0, p->out, p->bug))                                \
	X(refill, LAUNCH(refill, 1, N, 0, 0, p->out, p->in, p->bug))                               \
	X(read_past, run_past(p))                                                                  \
	X(dynamic_past, LAUNCH(dynamic_past, 1, N, N * sizeof(float), 0, p->out, N, p->bug))       \
	X(static_past, LAUNCH(static_past, 1, N, 0, 0, p->out, N, p->bug))                         \
	X(unwritten, LAUNCH(unwritten, 1, N, 0, 0, p->out, p->bug))                                \
	X(unwritten_shared, LAUNCH(unwritten_shared, 1, N, 0, 0, p->out, p->bug))                  \
	X(unwritten_dynamic,                                                                       \
	    LAUNCH(unwritten_dynamic, 1, N, N * sizeof(float), 0, p->out, p->bug))                 \
	X(unwritten_memory, run_fresh(p))                                                          \
	X(add_across_blocks, ((void)cudaMemsetAsync(p->out, 0, N * sizeof(float), 0),              \
				 LAUNCH(add_across_blocks, 4, N, 0, 0, p->out, p->bug)))           \
	X(shared_add, LAUNCH(shared_add, 1, N, 0, 0, p->out, p->bug))                              \
	X(warp_exchange, LAUNCH(warp_exchange, 1, N, 0, 0, p->out, p->bug))                        \
	X(pipe_short_wait, LAUNCH(pipe, 1, N, 0, 0, p->out, p->in, p->bug, false))                 \
	X(pipe_no_barrier, LAUNCH(pipe, 1, N, 0, 0, p->out, p->in, false, p->bug))                 \
	X(not_in_mask, LAUNCH(not_in_mask, 1, N, 0, 0, p->out, p->bug))                            \
	X(shuffle_from_nowhere, LAUNCH(shuffle_from_nowhere, 1, N, 0, 0, p->out, p->bug))          \
	X(divergent_barrier, LAUNCH(divergent_barrier, 1, N, 0, 0, p->out, p->bug))                \
	X(return_before_barrier, LAUNCH(return_before_barrier, 1, N, 0, 0, p->out, p->bug))        \
	X(shuffle_and_barrier, LAUNCH(shuffle_and_barrier, 1, N, 0, 0, p->out, p->bug))            \
	X(misaligned, LAUNCH(misaligned, 1, N, 0, 0, p->out, p->in, p->bug))                       \
	X(misaligned_copy, LAUNCH(misaligned_copy, 1, N, 0, 0, p->out, p->in, p->bug))             \
	X(shift_past, LAUNCH(shift_past, 1, N, 0, 0, p->out, p->bug))                              \
	X(freed, run_freed(p))                                                                     \
	X(host_pointer, run_host(p))                                                               \
	X(host_writes, run_host_write(p))                                                          \
	X(workspace_unaligned, run_product(p, p->bug ? 16 : 0, false))                             \
	X(workspace_dropped, run_product(p, 0, p->bug))                                            \
	X(too_much_shared, LAUNCH(identity, 1, N, p->bug ? 60000 : 40000, 0, p->out))              \
	X(too_many_threads, LAUNCH(identity, 1, p->bug ? 2048 : 1024, 0, 0, p->out))

#define FUNCTION(name, call)                                                                       \
	static void planted_##name(const struct plan *p)                                           \
	{                                                                                          \
		call;                                                                              \
	}
CASES(FUNCTION)

static const struct {
	const char *name;
	void (*run)(const struct plan *p);
} cases[] = {
#define ROW(name, call) {#name, planted_##name},
    CASES(ROW)};

/* 0: out[i] = i for all. */
static int
run(size_t i, bool bug)
{
	float out[N], in[4 * N];
	struct plan p = {.bug = bug};
	float *device_in;
	cudaError_t error;
	int wrong = 0;

	for (int j = 0; j < 4 * N; j++)
		in[j] = (float)j;
	(void)cudaMalloc((void **)&p.out, sizeof(out));
	(void)cudaMalloc((void **)&device_in, sizeof(in));
	(void)cudaMemcpyAsync(device_in, in, sizeof(in), cudaMemcpyHostToDevice, 0);
	p.in = device_in;
	cases[i].run(&p);
	error = cudaGetLastError();
	if (error != cudaSuccess) {
		printf("%s: launch error: %s\n", cases[i].name, cudaGetErrorString(error));
		return 1;
	}
	(void)cudaMemcpyAsync(out, p.out, sizeof(out), cudaMemcpyDeviceToHost, 0);
	for (int j = 0; j < N; j++)
		wrong += out[j] != (float)j;
	if (wrong > 0)
		printf("%s: %d wrong\n", cases[i].name, wrong);
	return wrong > 0;
}

int
main(int argc, char **argv)
{
	bool all = argc == 2 && strcmp(argv[1], "right") == 0;
	int failed = 0, ran = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (all || (argc == 2 && strcmp(argv[1], cases[i].name) == 0)) {
			failed |= run(i, !all);
			ran++;
		}
	return ran > 0 ? failed : 2;
}
