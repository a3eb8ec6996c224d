/* The CUDA backend opens and closes; its areas of memory. */
#include "kernels/gpu.h"
#include "kernels/context_both.h"
#include "kernels/repeat_graphs.h"
#include "kernels/staging.h"
#include "kernels/tiles.h"

#include <stdlib.h>
#include <unistd.h>

/* What cuBLAS recommends: for sm_90, and before it. */
enum { WORKSPACE_HOPPER = 32 << 20, WORKSPACE = 4 << 20 };

static enum op_status
area_grow(struct op_context *ctx, struct gpu_area *area, size_t bytes)
{
	if (bytes <= area->size)
		return OP_OK;
	/* first: the old and the new need not fit together */
	GPU_TRY(op_free(ctx, area->memory));
	*area = (struct gpu_area){NULL, 0};
	GPU_TRY(op_alloc(ctx, &area->memory, bytes));
	area->size = bytes;
	return OP_OK;
}

enum op_status
gpu_scratch(struct op_context *ctx, void **out, size_t bytes)
{
	enum op_status status = area_grow(ctx, &ctx->scratch, bytes);

	*out = ctx->scratch.memory;
	return status;
}

enum op_status
gpu_panel(struct op_context *ctx, void **out, size_t bytes)
{
	enum op_status status = area_grow(ctx, &ctx->panel, bytes);

	*out = ctx->panel.memory;
	return status;
}

/* cuBLAS' settings in the environment that change what a float32 product is: neither TF32 nor sums
   of bfloat16 products instead. It reads them when it is opened. */
static enum op_status
keep_float32(struct op_context *ctx)
{
	if (setenv("NVIDIA_TF32_OVERRIDE", "0", 1) != 0 ||
	    setenv("CUBLAS_EMULATE_SINGLE_PRECISION", "0", 1) != 0)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for the environment");
	return OP_OK;
}

static enum op_status
open_device(struct op_context *ctx)
{
	int shared = 0, major = 0;
	size_t workspace;

	GPU_TRY(gpu_check(ctx, cudaSetDevice(ctx->device), "cudaSetDevice"));
	GPU_TRY(gpu_check(ctx,
	    cudaDeviceGetAttribute(
		&ctx->multiprocessors, cudaDevAttrMultiProcessorCount, ctx->device),
	    "cudaDeviceGetAttribute"));
	GPU_TRY(gpu_check(ctx,
	    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ctx->device),
	    "cudaDeviceGetAttribute"));
	ctx->shared_most = (size_t)shared;
	GPU_TRY(gpu_check(ctx,
	    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ctx->device),
	    "cudaDeviceGetAttribute"));
	if (major < 8)
		return op_fail(
		    ctx, OP_UNSUPPORTED, "compute capability %d: at least 8.0 is needed", major);
	workspace = major >= 9 ? WORKSPACE_HOPPER : WORKSPACE;
	GPU_TRY(gpu_check(ctx, cudaStreamCreateWithFlags(&ctx->stream, cudaStreamNonBlocking),
	    "cudaStreamCreate"));
	GPU_TRY(op_alloc(ctx, &ctx->blas_workspace, workspace));
	GPU_TRY(keep_float32(ctx));
	GPU_TRY(gpu_check_blas(ctx, cublasCreate(&ctx->blas), "cublasCreate"));
	GPU_TRY(gpu_check_blas(ctx, cublasSetStream(ctx->blas, ctx->stream), "cublasSetStream"));
	GPU_TRY(gpu_check_blas(ctx, cublasSetWorkspace(ctx->blas, ctx->blas_workspace, workspace),
	    "cublasSetWorkspace"));
	return gpu_check_blas(ctx,
	    cublasSetMathMode(ctx->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
	    "cublasSetMathMode");
}

enum op_status
op_open(struct op_context **out, const struct op_options *options)
{
	struct op_context *ctx;
	enum op_status status = context_new(&ctx, options, (int)sysconf(_SC_NPROCESSORS_ONLN));

	*out = NULL;
	if (status != OP_OK)
		return status;
	ctx->device = options->device;
	status = open_device(ctx);
	if (status == OP_OK)
		status = tiles_new(ctx);
	if (status == OP_OK)
		status = staging_new(ctx);
	if (status == OP_OK)
		status = graphs_new(ctx);
	if (status != OP_OK) {
		op_fail(NULL, status, "%s", ctx->error);
		op_close(ctx);
		return status;
	}
	*out = ctx;
	return OP_OK;
}

void
op_close(struct op_context *ctx)
{
	if (ctx == NULL)
		return;
	if (ctx->stream != NULL)
		(void)cudaStreamSynchronize(ctx->stream); /* copies still use what is freed here */
	graphs_free(ctx->graphs);
	tiles_free(ctx->tiling);
	staging_free(ctx->staging);
	(void)cudaFree(ctx->scratch.memory);
	(void)cudaFree(ctx->panel.memory);
	if (ctx->blas != NULL)
		(void)cublasDestroy(ctx->blas);
	(void)cudaFree(ctx->blas_workspace);
	if (ctx->stream != NULL)
		(void)cudaStreamDestroy(ctx->stream);
	(void)cudaGetLastError();
	free(ctx);
}

/* sm_80 and later do; older ones have no machine code here. */
bool
op_native_bf16(const struct op_context *ctx)
{
	return ctx->compute == OP_BF16;
}

enum op_status
op_reserve(struct op_context *ctx, size_t bytes, size_t tokens)
{
	GPU_TRY(area_grow(ctx, &ctx->scratch, bytes));
	return tiles_reserve(ctx, tokens);
}
