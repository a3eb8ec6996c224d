/*
 * What context.c and context.cu have in common, compiled into each: they include it once, behind
 * their own struct op_context. Opening's options, and the last error.
 */
#ifndef KERNELS_CONTEXT_BOTH_H
#define KERNELS_CONTEXT_BOTH_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char open_error[256]; /* why there is no context */

enum op_status
op_fail(struct op_context *ctx, enum op_status status, const char *format, ...)
{
	char *text = ctx != NULL ? ctx->error : open_error;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(open_error), format, args);
	va_end(args);
	return status;
}

/* A context of zeros but for what the options say; `processors` is what 0 threads means. OP_OK,
   OP_UNSUPPORTED or OP_NO_MEMORY. */
static enum op_status
context_new(struct op_context **out, const struct op_options *options, int processors)
{
	struct op_context *ctx;

	*out = NULL;
	if (options->threads < 0 || options->threads > 1024)
		return op_fail(NULL, OP_UNSUPPORTED, "%d threads", options->threads);
	if (options->compute != OP_F32 && options->compute != OP_BF16)
		return op_fail(NULL, OP_UNSUPPORTED, "element type %d", (int)options->compute);
	ctx = (struct op_context *)calloc(1, sizeof(*ctx));
	if (ctx == NULL)
		return op_fail(NULL, OP_NO_MEMORY, "no memory for the context");
	ctx->compute = options->compute;
	ctx->threads = options->threads != 0 ? options->threads : processors;
	*out = ctx;
	return OP_OK;
}

const char *
op_last_error(const struct op_context *ctx)
{
	return ctx != NULL ? ctx->error : open_error;
}

enum op_dtype
op_compute(const struct op_context *ctx)
{
	return ctx->compute;
}

int
op_threads(const struct op_context *ctx)
{
	return ctx->threads;
}

#endif
