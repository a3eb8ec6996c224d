/*
 * The CPU backend's state, for the files of this folder only.
 *
 * Two areas that live as long as the context: `scratch`, taken whole by the op that runs and cut
 * into what it needs, and `panel`, which belongs to gemm.c and holds operands that had to be
 * converted. Both grow when asked for more than ever before, and never shrink.
 */
#ifndef KERNELS_CONTEXT_H
#define KERNELS_CONTEXT_H

#include "kernels/ops.h"
#include "kernels/sizes.h"

struct matmul;

struct op_context {
	enum op_dtype compute;
	int threads;
	bool native_bf16; /* the processor multiplies bfloat16 itself */
	void *scratch, *panel;
	size_t scratch_size, panel_size;
	struct matmul *matmul; /* bfloat16 products; NULL unless native_bf16 */
	char error[256];
};

/* Keeps the sentence for op_last_error and returns `status`. ctx may be NULL: no context yet. */
enum op_status op_fail(struct op_context *ctx, enum op_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* *out = at least `bytes`, 64-byte aligned, owned by ctx, valid until the next call. The content is
   undefined. OP_NO_MEMORY. */
enum op_status op_scratch(struct op_context *ctx, void **out, size_t bytes);
/* The same for gemm.c's own area. */
enum op_status op_panel(struct op_context *ctx, void **out, size_t bytes);

/* Memory of a size that is remembered in front of it: zeroed, 64-byte aligned; large ones on huge
   pages where the system gives them, untouched pages take no memory. NULL: none left. */
void *memory_new(size_t bytes);
void memory_free(void *memory);
/* Bytes that all of memory_new hold, of every context: what a plan is compared with. */
size_t memory_in_use(void);

/* How many threads an op of `work` elements is worth: waking them costs some microseconds. */
static inline int
op_team(const struct op_context *ctx, size_t work)
{
	return work < 16384 ? 1 : ctx->threads;
}

/* Bytes rounded up to whole cache lines, to cut several arrays from one area. */
static inline size_t
line_up(size_t bytes)
{
	return div_up(bytes, 64) * 64;
}

#endif
