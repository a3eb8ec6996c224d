#include "kernels/context.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/context_both.h"
#include "kernels/gemm.h"
#include "kernels/matmul.h"

enum {
	MEMORY_HEADER = 64,	   /* keeps what follows it aligned */
	MEMORY_MAPPED = 256 << 10, /* from here on pages of its own: they go back when freed */
	MEMORY_HUGE = 4 << 20,	   /* from here on huge pages */
};

struct memory_header {
	size_t total; /* with the header */
	bool mapped;
};

static atomic_size_t in_use; /* bytes of memory_new that were not freed */

void *
memory_new(size_t bytes)
{
	struct memory_header *header;
	size_t total;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	total = line_up(bytes) + MEMORY_HEADER;
	if (total >= MEMORY_MAPPED) {
		header =
		    mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (header == MAP_FAILED)
			return NULL;
		if (total >= MEMORY_HUGE)
			madvise(
			    header, total, MADV_HUGEPAGE); /* a wish: slower without, not wrong */
		header->mapped = true;
	} else {
		header = aligned_alloc(64, total);
		if (header == NULL)
			return NULL;
		memset(header, 0, total);
	}
	header->total = total;
	atomic_fetch_add(&in_use, total);
	return (char *)header + MEMORY_HEADER;
}

void
memory_free(void *memory)
{
	struct memory_header *header;

	if (memory == NULL)
		return;
	header = (struct memory_header *)((char *)memory - MEMORY_HEADER);
	atomic_fetch_sub(&in_use, header->total);
	if (header->mapped)
		munmap(header, header->total);
	else
		free(header);
}

size_t
memory_in_use(void)
{
	return atomic_load(&in_use);
}

static enum op_status
area_grow(struct op_context *ctx, void **area, size_t *size, size_t bytes)
{
	if (bytes <= *size)
		return OP_OK;
	memory_free(*area); /* first: the old and the new need not fit together */
	*size = 0;
	*area = memory_new(bytes);
	if (*area == NULL)
		return op_fail(
		    ctx, OP_NO_MEMORY, "no memory for %zu bytes of scratch space", bytes);
	*size = bytes;
	return OP_OK;
}

enum op_status
op_scratch(struct op_context *ctx, void **out, size_t bytes)
{
	enum op_status status = area_grow(ctx, &ctx->scratch, &ctx->scratch_size, bytes);

	*out = ctx->scratch;
	return status;
}

enum op_status
op_panel(struct op_context *ctx, void **out, size_t bytes)
{
	enum op_status status = area_grow(ctx, &ctx->panel, &ctx->panel_size, bytes);

	*out = ctx->panel;
	return status;
}

enum op_status
op_open(struct op_context **out, const struct op_options *options)
{
	struct op_context *ctx;
	enum op_status status = context_new(&ctx, options, omp_get_num_procs());

	*out = NULL;
	if (status != OP_OK)
		return status;
	/* The GEMM library takes as many threads as OpenMP offers to the calling thread. */
	omp_set_dynamic(0);
	omp_set_num_threads(ctx->threads);
	if (ctx->compute == OP_BF16 && matmul_native_bf16()) {
		status = matmul_new(&ctx->matmul);
		if (status != OP_OK) {
			op_close(ctx);
			return op_fail(NULL, status, "the GEMM library does not start");
		}
		ctx->native_bf16 = true;
	}
	*out = ctx;
	return OP_OK;
}

void
op_close(struct op_context *ctx)
{
	if (ctx == NULL)
		return;
	matmul_free(ctx->matmul);
	memory_free(ctx->scratch);
	memory_free(ctx->panel);
	free(ctx);
}

bool
op_native_bf16(const struct op_context *ctx)
{
	return ctx->native_bf16;
}

enum op_status
op_reserve(struct op_context *ctx, size_t bytes, size_t tokens)
{
	(void)tokens;
	return area_grow(ctx, &ctx->scratch, &ctx->scratch_size, bytes);
}
