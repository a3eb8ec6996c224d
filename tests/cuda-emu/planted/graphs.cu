/* Work that is recorded once and launched as a graph, with one planted bug each: see planted.h. */
#include <cublas_v2.h>

#include "planted.h"

__global__ void
ramp(float *out, float share)
{
	out[threadIdx.x] += share * (float)threadIdx.x;
}

__global__ void
ramp_from(float *out, const float *share)
{
	out[threadIdx.x] += share[0] * (float)threadIdx.x;
}

__global__ void
copy_kernel(float *out, const float *in)
{
	out[threadIdx.x] = in[threadIdx.x];
}

static void
zero(float *memory, cudaStream_t stream)
{
	(void)cudaMemsetAsync(memory, 0, N * sizeof(float), stream);
}

static void
begin(cudaStream_t *stream)
{
	(void)cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
	(void)cudaStreamBeginCapture(*stream, cudaStreamCaptureModeThreadLocal);
}

/* NULL: it was spoilt. */
static cudaGraphExec_t
end(cudaStream_t stream)
{
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph;

	if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) {
		(void)cudaGraphInstantiate(&exec, graph, 0);
		(void)cudaGraphDestroy(graph);
	}
	return exec;
}

static void
launch(cudaGraphExec_t exec, cudaStream_t stream)
{
	if (exec != NULL)
		(void)cudaGraphLaunch(exec, stream);
}

static void
drop(cudaGraphExec_t exec, cudaStream_t stream)
{
	(void)cudaGraphExecDestroy(exec);
	(void)cudaStreamDestroy(stream);
}

/* The share changes from launch to launch: in the device's memory, or as an argument, which does
   not. */
static void
argument(const struct plan *p)
{
	const float shares[] = {0.25f, 0.75f};
	cudaStream_t stream;
	cudaGraphExec_t exec;
	float *share;

	(void)cudaMalloc((void **)&share, sizeof(*share));
	zero(p->out, 0);
	begin(&stream);
	if (p->bug)
		LAUNCH(ramp, 1, N, 0, stream, p->out, shares[0]);
	else
		LAUNCH(ramp_from, 1, N, 0, stream, p->out, share);
	exec = end(stream);
	for (int i = 0; i < 2; i++) {
		(void)cudaMemcpyAsync(
		    share, &shares[i], sizeof(*share), cudaMemcpyHostToDevice, stream);
		launch(exec, stream);
	}
	(void)cudaStreamSynchronize(stream);
	drop(exec, stream);
}

/* Recorded is not done. */
static void
not_launched(const struct plan *p)
{
	cudaStream_t stream;
	cudaGraphExec_t exec;

	begin(&stream);
	LAUNCH(copy_kernel, 1, N, 0, stream, p->out, p->in);
	exec = end(stream);
	if (!p->bug)
		launch(exec, stream);
	drop(exec, stream);
}

static void
other_stream(const struct plan *p)
{
	cudaStream_t stream;
	cudaGraphExec_t exec;

	begin(&stream);
	zero(p->out, stream);
	LAUNCH(ramp, 1, N, 0, p->bug ? 0 : stream, p->out, 1.0f);
	exec = end(stream);
	launch(exec, stream);
	launch(exec, stream);
	drop(exec, stream);
}

/* The host's memory is read when the graph is launched. */
static void
host_memory(const struct plan *p)
{
	cudaStream_t stream;
	cudaGraphExec_t exec;
	float *host;

	(void)cudaMallocHost((void **)&host, N * sizeof(float));
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	begin(&stream);
	(void)cudaMemcpyAsync(p->out, host, N * sizeof(float), cudaMemcpyHostToDevice, stream);
	exec = end(stream);
	if (p->bug)
		memset(host, 0, N * sizeof(float));
	launch(exec, stream);
	(void)cudaStreamSynchronize(stream);
	(void)cudaFreeHost(host);
	drop(exec, stream);
}

/* What may wait for the device, or changes its memory, cannot be recorded. */
enum forbidden { SYNC, MALLOC, FREE, HOST, PAGEABLE, EVENT };

static void
forbidden(const struct plan *p, enum forbidden what)
{
	float *memory, *pinned, pageable[N] = {0};
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaEvent_t event;

	(void)cudaMalloc((void **)&memory, N * sizeof(float));
	(void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	begin(&stream);
	LAUNCH(copy_kernel, 1, N, 0, stream, p->out, p->in);
	if (p->bug && what == SYNC)
		(void)cudaStreamSynchronize(stream);
	if (p->bug && what == MALLOC)
		(void)cudaMalloc((void **)&memory, N * sizeof(float));
	if (p->bug && what == FREE)
		(void)cudaFree(memory);
	if (p->bug && what == HOST)
		(void)cudaMallocHost((void **)&pinned, N * sizeof(float));
	if (p->bug && what == PAGEABLE)
		(void)cudaMemcpyAsync(
		    memory, pageable, sizeof(pageable), cudaMemcpyHostToDevice, stream);
	(void)cudaEventRecord(event, stream);
	if (p->bug && what == EVENT)
		(void)cudaEventSynchronize(event);
	exec = end(stream);
	launch(exec, stream);
	(void)cudaEventDestroy(event);
	drop(exec, stream);
}

static void
freed(const struct plan *p)
{
	cudaStream_t stream;
	cudaGraphExec_t exec;
	float *memory;

	(void)cudaMalloc((void **)&memory, N * sizeof(float));
	(void)cudaMemcpyAsync(memory, p->in, N * sizeof(float), cudaMemcpyDeviceToDevice, 0);
	begin(&stream);
	LAUNCH(copy_kernel, 1, N, 0, stream, p->out, memory);
	exec = end(stream);
	if (p->bug)
		(void)cudaFree(memory);
	launch(exec, stream);
	drop(exec, stream);
}

/* out (N, 1) = alpha in (N, 1) . in[1], recorded. */
static cudaGraphExec_t
record_product(
    const struct plan *p, cudaStream_t *stream, const float *in, const float *alpha, float *area)
{
	const float zero = 0.0f;
	cublasHandle_t blas;

	(void)cublasCreate(&blas);
	begin(stream);
	(void)cublasSetStream(blas, *stream);
	(void)cublasSetWorkspace(blas, area, 2048);
	(void)cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, 1, 1, alpha, in, CUDA_R_32F, N,
	    in + 1, CUDA_R_32F, 1, &zero, p->out, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
	    CUBLAS_GEMM_DEFAULT);
	(void)cublasDestroy(blas);
	return end(*stream);
}

/* A product's factors are those of the time when it was recorded. */
static void
factor(const struct plan *p)
{
	float alpha = p->bug ? 2.0f : 1.0f, *area;
	cudaGraphExec_t exec;
	cudaStream_t stream;

	(void)cudaMalloc((void **)&area, 2048);
	exec = record_product(p, &stream, p->in, &alpha, area);
	alpha = 1.0f;
	launch(exec, stream);
	drop(exec, stream);
}

static void
product_freed(const struct plan *p)
{
	float one = 1.0f, *area, *in;
	cudaGraphExec_t exec;
	cudaStream_t stream;

	(void)cudaMalloc((void **)&area, 2048);
	(void)cudaMalloc((void **)&in, N * sizeof(float));
	(void)cudaMemcpyAsync(in, p->in, N * sizeof(float), cudaMemcpyDeviceToDevice, 0);
	exec = record_product(p, &stream, in, &one, area);
	if (p->bug)
		(void)cudaFree(in);
	launch(exec, stream);
	drop(exec, stream);
}

#define CASES(X)                                                                                   \
	X(graph_argument, argument(p))                                                             \
	X(graph_not_launched, not_launched(p))                                                     \
	X(graph_other_stream, other_stream(p))                                                     \
	X(graph_host_memory, host_memory(p))                                                       \
	X(graph_freed, freed(p))                                                                   \
	X(graph_factor, factor(p))                                                                 \
	X(graph_product_freed, product_freed(p))                                                   \
	X(graph_sync, forbidden(p, SYNC))                                                          \
	X(graph_malloc, forbidden(p, MALLOC))                                                      \
	X(graph_free, forbidden(p, FREE))                                                          \
	X(graph_host_malloc, forbidden(p, HOST))                                                   \
	X(graph_pageable, forbidden(p, PAGEABLE))                                                  \
	X(graph_event, forbidden(p, EVENT))

PLANTED(graphs, CASES)
