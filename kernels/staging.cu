#include "kernels/staging.h"

#include <stdlib.h>

enum op_status
staging_new(struct op_context *ctx)
{
	struct gpu_staging *s = (struct gpu_staging *)calloc(1, sizeof(*s));
	void *memory = NULL;

	ctx->staging = s;
	if (s == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for the context");
	for (int i = 0; i < 2; i++) {
		GPU_TRY(op_host_alloc(ctx, &memory, STAGING_BYTES));
		s->buffer[i] = (unsigned char *)memory;
		GPU_TRY(
		    gpu_check(ctx, cudaEventCreateWithFlags(&s->read[i], cudaEventDisableTiming),
			"cudaEventCreate"));
	}
	GPU_TRY(op_host_alloc(ctx, &memory, sizeof(*s->mirror)));
	s->mirror = (struct gpu_notes *)memory;
	GPU_TRY(op_alloc(ctx, &memory, sizeof(*s->notes)));
	s->notes = (struct gpu_notes *)memory;
	return gpu_check(
	    ctx, cudaMemsetAsync(s->notes, 0xff, sizeof(*s->notes), ctx->stream), "cudaMemset");
}

void
staging_free(struct gpu_staging *s)
{
	if (s == NULL)
		return;
	for (int i = 0; i < 2; i++) {
		if (s->read[i] != NULL)
			(void)cudaEventDestroy(s->read[i]);
		if (s->buffer[i] != NULL)
			(void)cudaFreeHost(s->buffer[i]);
	}
	if (s->mirror != NULL)
		(void)cudaFreeHost(s->mirror);
	(void)cudaFree(s->notes);
	free(s);
}

/* The other buffer's turn. */
static enum op_status
turn(struct op_context *ctx, struct gpu_staging *s)
{
	GPU_TRY(gpu_check(ctx, cudaEventRecord(s->read[s->now], ctx->stream), "cudaEventRecord"));
	s->busy[s->now] = true;
	s->now = !s->now;
	if (s->busy[s->now])
		GPU_TRY(
		    gpu_check(ctx, cudaEventSynchronize(s->read[s->now]), "cudaEventSynchronize"));
	s->busy[s->now] = false;
	s->used = 0;
	return OP_OK;
}

enum op_status
staging_room(struct op_context *ctx, void **out, size_t bytes)
{
	struct gpu_staging *s = ctx->staging;

	if (bytes > STAGING_BYTES - s->used)
		GPU_TRY(turn(ctx, s));
	*out = s->buffer[s->now] + s->used;
	s->used = size_min(STAGING_BYTES, s->used + line_up(bytes));
	return OP_OK;
}
