#include "kernels/compute.h"

#include <stdlib.h>
#include <time.h>

enum {
	TRIES = 3, /* after the first, which makes the code and the pages: the best of them */
};

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Zeroed matrices multiply as fast as others, but they have to be written: pages that never were
   are all the same page. */
static enum op_status
measure(double *gflops, struct op_context *ctx, size_t rows, size_t outputs, size_t inputs)
{
	size_t size = op_compute(ctx) == OP_BF16 ? 2 : 4;
	struct op_matrix w = {.rows = outputs, .cols = inputs, .dtype = op_compute(ctx)};
	void *x = NULL, *out = NULL, *weights = NULL;
	double best = 1e30;
	enum op_status status = op_alloc(ctx, &x, rows * inputs * size);

	if (status == OP_OK)
		status = op_alloc(ctx, &out, rows * outputs * sizeof(float));
	if (status == OP_OK)
		status = op_alloc(ctx, &weights, outputs * inputs * size);
	if (status == OP_OK)
		status = op_zero(ctx, x, rows * inputs * size);
	if (status == OP_OK)
		status = op_zero(ctx, weights, outputs * inputs * size);
	w.data = weights;
	for (int i = 0; i <= TRIES && status == OP_OK; i++) {
		double start = seconds();

		status = op_linear(ctx, out, x, &w, NULL, rows);
		if (status == OP_OK)
			status = op_sync(ctx);
		start = seconds() - start;
		best = i > 0 && start < best ? start : best;
	}
	op_free(ctx, weights);
	op_free(ctx, out);
	op_free(ctx, x);
	*gflops = 2e-9 * (double)rows * (double)outputs * (double)inputs / best;
	return status;
}

enum op_status
compute_measure(struct compute_speed *out, const struct op_options *options, size_t rows,
    size_t outputs, size_t inputs)
{
	struct op_options o = *options;
	enum op_status status = OP_OK;

	for (int i = 0; i < 2 && status == OP_OK; i++) {
		struct op_context *ctx;

		o.compute = i == 0 ? OP_F32 : OP_BF16;
		status = op_open(&ctx, &o);
		if (status != OP_OK)
			break;
		if (o.compute == OP_BF16 && !op_native_bf16(ctx))
			out->bf16 = 0;
		else
			status =
			    measure(i == 0 ? &out->f32 : &out->bf16, ctx, rows, outputs, inputs);
		op_close(ctx);
	}
	return status;
}

enum op_dtype
compute_choose(const struct compute_speed *speed)
{
	return speed->bf16 > 0 && speed->bf16 >= 1.3 * speed->f32 ? OP_BF16 : OP_F32;
}
