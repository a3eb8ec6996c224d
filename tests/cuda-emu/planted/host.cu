/* What the host asks of a launch and of cuBLAS. */
#include <cublas_v2.h>

#include "planted.h"

__global__ void
identity(float *out)
{
	if (threadIdx.x < N)
		out[threadIdx.x] = (float)threadIdx.x;
}

/* In resources.txt it has 128 registers and 20000 bytes of static shared memory. */
__global__ void
large(float *out)
{
	if (threadIdx.x < N)
		out[threadIdx.x] = (float)threadIdx.x;
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

/* Memory that is not pinned: whether the copy waits for itself is the driver's. */
static void
run_pageable(const struct plan *p)
{
	float host[N], read[N];

	(void)cudaMemcpyAsync(host, p->in, sizeof(host), cudaMemcpyDeviceToHost, 0);
	if (!p->bug)
		(void)cudaStreamSynchronize(0);
	memcpy(read, host, sizeof(read));
	(void)cudaStreamSynchronize(0);
	(void)cudaMemcpyAsync(p->out, read, sizeof(read), cudaMemcpyHostToDevice, 0);
	(void)cudaStreamSynchronize(0);
}

enum pinned_bug { PINNED_RIGHT, PINNED_EARLY, PINNED_REWRITTEN, PINNED_FREED };

/* out, by way of pinned memory. */
static void
run_pinned(const struct plan *p, enum pinned_bug bug)
{
	float *host, read[N];

	bug = p->bug ? bug : PINNED_RIGHT;
	(void)cudaMallocHost((void **)&host, N * sizeof(float));
	(void)cudaMemcpyAsync(host, p->in, N * sizeof(float), cudaMemcpyDeviceToHost, 0);
	if (bug != PINNED_EARLY)
		(void)cudaStreamSynchronize(0);
	memcpy(read, host, sizeof(read));
	(void)cudaStreamSynchronize(0);
	memcpy(host, read, sizeof(read));
	(void)cudaMemcpyAsync(p->out, host, N * sizeof(float), cudaMemcpyHostToDevice, 0);
	if (bug == PINNED_REWRITTEN)
		host[7] = 8.0f;
	if (bug != PINNED_FREED)
		(void)cudaStreamSynchronize(0);
	(void)cudaFreeHost(host);
}

/* 99 KiB are all that 8.6 has, the static bytes among them. */
static void
run_opted(const struct plan *p)
{
	const int bytes = (99 << 10) - 20000 + (p->bug ? 1 : 0);

	if (cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
	    cudaSuccess)
		LAUNCH(large, 1, N, bytes, 0, p->out);
}

#define CASES(X)                                                                                   \
	X(workspace_unaligned, run_product(p, p->bug ? 16 : 0, false))                             \
	X(workspace_dropped, run_product(p, 0, p->bug))                                            \
	X(pageable_early, run_pageable(p))                                                         \
	X(pinned_early, run_pinned(p, PINNED_EARLY))                                               \
	X(pinned_rewritten, run_pinned(p, PINNED_REWRITTEN))                                       \
	X(pinned_freed, run_pinned(p, PINNED_FREED))                                               \
	X(too_many_rows, LAUNCH(identity, dim3(1, p->bug ? 65536 : 1), N, 0, 0, p->out))           \
	X(too_deep, LAUNCH(identity, dim3(1, 1, p->bug ? 65536 : 1), N, 0, 0, p->out))             \
	X(no_blocks, LAUNCH(identity, p->bug ? 0 : 1, N, 0, 0, p->out))                            \
	X(too_many_registers, LAUNCH(large, 1, p->bug ? 520 : 512, 0, 0, p->out))                  \
	X(static_and_dynamic, LAUNCH(large, 1, N, p->bug ? 30000 : 29000, 0, p->out))              \
	X(more_than_a_block_has, run_opted(p))                                                     \
	X(too_much_shared, LAUNCH(identity, 1, N, p->bug ? 60000 : 40000, 0, p->out))              \
	X(too_many_threads, LAUNCH(identity, 1, p->bug ? 2048 : 1024, 0, 0, p->out))

PLANTED(host, CASES)
