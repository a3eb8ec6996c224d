/* What the host asks of a launch and of cuBLAS. */
#include <cublas_v2.h>

#include "planted.h"

__global__ void
identity(float *out)
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

#define CASES(X)                                                                                   \
	X(workspace_unaligned, run_product(p, p->bug ? 16 : 0, false))                             \
	X(workspace_dropped, run_product(p, 0, p->bug))                                            \
	X(too_much_shared, LAUNCH(identity, 1, N, p->bug ? 60000 : 40000, 0, p->out))              \
	X(too_many_threads, LAUNCH(identity, 1, p->bug ? 2048 : 1024, 0, 0, p->out))

PLANTED(host, CASES)
