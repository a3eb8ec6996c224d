/* Device memory and what crosses to the host. */
#include "kernels/repeat_graphs.h"
#include "kernels/staging.h"

enum op_status
op_alloc(struct op_context *ctx, void **out, size_t bytes)
{
	cudaError_t error;
	enum op_status status;
	size_t left = 0, total = 0;
	bool gave;

	*out = NULL;
	if (bytes == 0) /* what cudaMalloc does then is not documented */
		return OP_OK;
	error = cudaMalloc(out, bytes);
	if (error == cudaErrorMemoryAllocation) {
		(void)cudaGetLastError();
		GPU_TRY(graphs_give_way(ctx, &gave));
		if (gave)
			error = cudaMalloc(out, bytes);
	}
	if (error == cudaErrorMemoryAllocation) {
		*out = NULL;
		(void)cudaGetLastError();
		GPU_TRY(gpu_check(ctx, cudaMemGetInfo(&left, &total), "cudaMemGetInfo"));
		return op_fail(ctx, OP_NO_MEMORY,
		    "no memory for %zu bytes: %zu of the device's %zu are free", bytes, left,
		    total);
	}
	GPU_TRY(gpu_check(ctx, error, "cudaMalloc"));
	status = op_zero(ctx, *out, bytes);
	if (status != OP_OK) {
		(void)cudaFree(*out);
		*out = NULL;
	}
	return status;
}

enum op_status
op_free(struct op_context *ctx, void *memory)
{
	GPU_TRY(gpu_check(ctx, cudaFree(memory), "cudaFree"));
	return memory != NULL ? graphs_forget(ctx) : OP_OK;
}

enum op_status
op_host_alloc(struct op_context *ctx, void **out, size_t bytes)
{
	*out = NULL;
	GPU_TRY(gpu_check(ctx, cudaMallocHost(out, size_max(bytes, 1)), "pinned memory"));
	memset(*out, 0, bytes);
	return OP_OK;
}

enum op_status
op_host_free(struct op_context *ctx, void *memory)
{
	return memory == NULL ? OP_OK : gpu_check(ctx, cudaFreeHost(memory), "cudaFreeHost");
}

enum op_status
op_stage(struct op_context *ctx, void **host, size_t *bytes, void *device)
{
	(void)device;
	*bytes = size_min(*bytes, STAGING_BYTES);
	return staging_room(ctx, host, *bytes);
}

enum op_status
op_staged(struct op_context *ctx, void *device, const void *host, size_t bytes)
{
	return gpu_check(ctx,
	    cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, ctx->stream), "upload");
}

enum op_status
op_upload(struct op_context *ctx, void *device, const void *host, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n) {
		char *to = (char *)device + at;
		void *room;

		n = bytes - at;
		GPU_TRY(op_stage(ctx, &room, &n, to));
		memcpy(room, (const char *)host + at, n);
		GPU_TRY(op_staged(ctx, to, room, n));
	}
	return OP_OK;
}

enum op_status
op_fetch(struct op_context *ctx, void *host, const void *device, size_t bytes)
{
	if (bytes == 0)
		return OP_OK;
	return gpu_check(ctx,
	    cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, ctx->stream), "download");
}

enum op_status
op_download(struct op_context *ctx, void *host, const void *device, size_t bytes)
{
	GPU_TRY(op_fetch(ctx, host, device, bytes));
	return op_sync(ctx);
}

enum op_status
op_zero(struct op_context *ctx, void *device, size_t bytes)
{
	if (bytes == 0)
		return OP_OK;
	return gpu_check(ctx, cudaMemsetAsync(device, 0, bytes, ctx->stream), "cudaMemset");
}

/* What kernels noted since the last time, and nothing from now on. */
static enum op_status
judge(struct op_context *ctx, const struct gpu_notes *found)
{
	const unsigned none = 0xffffffffu;
	const struct gpu_notes n = *found;

	if (n.embed == none && n.target == none)
		return OP_OK;
	GPU_TRY(gpu_check(
	    ctx, cudaMemsetAsync(ctx->staging->notes, 0xff, sizeof(n), ctx->stream), "cudaMemset"));
	if (n.embed != none)
		return op_fail(
		    ctx, OP_UNSUPPORTED, "the id of token %u is none of the table's", n.embed);
	return op_fail(
	    ctx, OP_UNSUPPORTED, "the target of row %u is not in the vocabulary", n.target);
}

enum op_status
op_sync(struct op_context *ctx)
{
	struct gpu_staging *s = ctx->staging;

	GPU_TRY(gpu_check(ctx,
	    cudaMemcpyAsync(
		s->mirror, s->notes, sizeof(*s->notes), cudaMemcpyDeviceToHost, ctx->stream),
	    "download"));
	GPU_TRY(gpu_check(ctx, cudaStreamSynchronize(ctx->stream), "cudaStreamSynchronize"));
	return judge(ctx, s->mirror);
}
