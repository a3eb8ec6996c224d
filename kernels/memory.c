/* The device's memory of the CPU backend is the host's. */
#include "kernels/context.h"

#include <stdlib.h>
#include <string.h>

enum op_status
op_alloc(struct op_context *ctx, void **out, size_t bytes)
{
	*out = memory_new(bytes);
	if (*out == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for %zu bytes", bytes);
	return OP_OK;
}

enum op_status
op_free(struct op_context *ctx, void *memory)
{
	(void)ctx;
	memory_free(memory);
	return OP_OK;
}

/* By itself, not of memory_new: this is no device's. */
enum op_status
op_host_alloc(struct op_context *ctx, void **out, size_t bytes)
{
	*out = calloc(1, bytes + 1);
	if (*out == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for %zu bytes", bytes);
	return OP_OK;
}

enum op_status
op_host_free(struct op_context *ctx, void *memory)
{
	(void)ctx;
	free(memory);
	return OP_OK;
}

enum op_status
op_upload(struct op_context *ctx, void *device, const void *host, size_t bytes)
{
	(void)ctx;
	if (bytes > 0)
		memcpy(device, host, bytes);
	return OP_OK;
}

/* The device's memory itself. */
enum op_status
op_stage(struct op_context *ctx, void **host, size_t *bytes, void *device)
{
	(void)ctx;
	(void)bytes;
	*host = device;
	return OP_OK;
}

enum op_status
op_staged(struct op_context *ctx, void *device, const void *host, size_t bytes)
{
	(void)ctx;
	(void)device;
	(void)host;
	(void)bytes;
	return OP_OK;
}

enum op_status
op_fetch(struct op_context *ctx, void *host, const void *device, size_t bytes)
{
	(void)ctx;
	if (bytes > 0)
		memcpy(host, device, bytes);
	return OP_OK;
}

enum op_status
op_download(struct op_context *ctx, void *host, const void *device, size_t bytes)
{
	return op_fetch(ctx, host, device, bytes);
}

enum op_status
op_zero(struct op_context *ctx, void *device, size_t bytes)
{
	(void)ctx;
	if (bytes > 0)
		memset(device, 0, bytes);
	return OP_OK;
}

enum op_status
op_sync(struct op_context *ctx)
{
	(void)ctx;
	return OP_OK;
}
