/* Device memory and what crosses to the host. */
#include "kernels/gpu.h"

enum op_status
op_alloc(struct op_context *ctx, void **out, size_t bytes)
{
	cudaError_t error = cudaMalloc(out, bytes);
	enum op_status status;
	size_t left = 0, total = 0;

	if (error == cudaErrorMemoryAllocation) {
		*out = NULL;
		cudaGetLastError();
		GPU_TRY(gpu_check(ctx, cudaMemGetInfo(&left, &total), "cudaMemGetInfo"));
		return op_fail(ctx, OP_NO_MEMORY,
		    "no memory for %zu bytes: %zu of the device's %zu are free", bytes, left,
		    total);
	}
	GPU_TRY(gpu_check(ctx, error, "cudaMalloc"));
	if (bytes == 0)
		return OP_OK;
	status = op_zero(ctx, *out, bytes);
	if (status != OP_OK) {
		cudaFree(*out);
		*out = NULL;
	}
	return status;
}

enum op_status
op_free(struct op_context *ctx, void *memory)
{
	return gpu_check(ctx, cudaFree(memory), "cudaFree");
}

enum op_status
op_upload(struct op_context *ctx, void *device, const void *host, size_t bytes)
{
	if (bytes == 0)
		return OP_OK;
	return gpu_check(ctx,
	    cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, ctx->stream), "upload");
}

enum op_status
op_download(struct op_context *ctx, void *host, const void *device, size_t bytes)
{
	if (bytes > 0)
		GPU_TRY(gpu_check(ctx,
		    cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, ctx->stream),
		    "download"));
	return op_sync(ctx);
}

enum op_status
op_zero(struct op_context *ctx, void *device, size_t bytes)
{
	if (bytes == 0)
		return OP_OK;
	return gpu_check(ctx, cudaMemsetAsync(device, 0, bytes, ctx->stream), "cudaMemset");
}

enum op_status
op_sync(struct op_context *ctx)
{
	return gpu_check(ctx, cudaStreamSynchronize(ctx->stream), "cudaStreamSynchronize");
}
