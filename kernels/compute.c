#include "kernels/compute.h"

#include <stdlib.h>
#include <time.h>

/* Rounds after the first, which makes the code and the pages; each type has one of each, in turn,
   so that what else the machine does meanwhile slows both. The best of them counts. */
enum { ROUNDS_LEAST = 3, ROUNDS_MOST = 12 };
static const double LONG_ENOUGH = 0.3; /* seconds, after which ROUNDS_LEAST do */

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The product in one type. */
struct product {
	struct op_context *ctx; /* NULL: the device does not multiply it itself */
	void *x, *weights, *out;
	struct op_matrix w;
	double best; /* seconds */
};

static enum op_status
product_open(struct product *p, const struct op_options *options, enum op_dtype compute,
    size_t rows, size_t outputs, size_t inputs)
{
	struct op_options o = *options;
	size_t size = compute == OP_BF16 ? 2 : 4;
	enum op_status status;

	o.compute = compute;
	status = op_open(&p->ctx, &o);
	if (status == OP_OK && compute == OP_BF16 && !op_native_bf16(p->ctx)) {
		op_close(p->ctx);
		p->ctx = NULL;
		return OP_OK;
	}
	if (status == OP_OK)
		status = op_alloc(p->ctx, &p->x, rows * inputs * size);
	if (status == OP_OK)
		status = op_alloc(p->ctx, &p->out, rows * outputs * sizeof(float));
	if (status == OP_OK)
		status = op_alloc(p->ctx, &p->weights, outputs * inputs * size);
	/* Zeroed matrices multiply as fast as others, but they have to be written: pages that never
	   were are all the same page. */
	if (status == OP_OK)
		status = op_zero(p->ctx, p->x, rows * inputs * size);
	if (status == OP_OK)
		status = op_zero(p->ctx, p->weights, outputs * inputs * size);
	p->w = (struct op_matrix){
	    .rows = outputs, .cols = inputs, .dtype = compute, .data = p->weights};
	p->best = 1e30;
	return status;
}

static void
product_close(struct product *p)
{
	if (p->ctx == NULL)
		return;
	op_free(p->ctx, p->weights);
	op_free(p->ctx, p->out);
	op_free(p->ctx, p->x);
	op_close(p->ctx);
}

static enum op_status
product_time(struct product *p, size_t rows, bool counts)
{
	double start = seconds();
	enum op_status status = op_linear(p->ctx, p->out, p->x, &p->w, NULL, false, rows);

	if (status == OP_OK)
		status = op_sync(p->ctx);
	start = seconds() - start;
	if (counts && start < p->best)
		p->best = start;
	return status;
}

enum op_status
compute_measure(struct compute_speed *out, const struct op_options *options, size_t rows,
    size_t outputs, size_t inputs)
{
	struct product products[2] = {{.ctx = NULL}, {.ctx = NULL}};
	double flops = 2e-9 * (double)rows * (double)outputs * (double)inputs, began;
	enum op_status status = OP_OK;

	for (int i = 0; i < 2 && status == OP_OK; i++)
		status = product_open(
		    &products[i], options, i == 0 ? OP_F32 : OP_BF16, rows, outputs, inputs);
	began = seconds();
	for (int n = 0; n <= ROUNDS_MOST && status == OP_OK; n++) {
		if (n > ROUNDS_LEAST && seconds() - began > LONG_ENOUGH)
			break;
		for (int i = 0; i < 2 && status == OP_OK; i++)
			if (products[i].ctx != NULL)
				status = product_time(&products[i], rows, n > 0);
	}
	out->f32 = flops / products[0].best;
	out->bf16 = products[1].ctx != NULL ? flops / products[1].best : 0;
	for (int i = 0; i < 2; i++)
		product_close(&products[i]);
	return status;
}

enum op_dtype
compute_choose(const struct compute_speed *speed)
{
	return speed->bf16 > 0 && speed->bf16 >= 1.3 * speed->f32 ? OP_BF16 : OP_F32;
}
