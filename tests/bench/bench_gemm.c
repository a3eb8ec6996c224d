/*
 * Speed of the matrix products at the shapes of one training step of SmolLM2-135M: T = 1024 tokens,
 * 256 supervised rows, forward and backward of every linear layer and of the output head. Prints
 * two lines of `name<TAB>value<TAB>unit<TAB>note`; the value is all flops over all time, each shape
 * at its best of some runs, so it is weighted as the step is.
 *
 *	bench_gemm [threads]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/gemm.h"

struct product {
	size_t tokens, outputs, inputs;
	size_t count; /* of the step */
};

enum { LAYERS = 30, RUNS = 5 };	    /* runs at least, and */
static const double AT_LEAST = 0.2; /* seconds for each product */

static const struct product products[] = {
    {1024, 576, 576, 2 * LAYERS},  /* q, o */
    {1024, 192, 576, 2 * LAYERS},  /* k, v */
    {1024, 1536, 576, 2 * LAYERS}, /* gate, up */
    {1024, 576, 1536, LAYERS},	   /* down */
    {256, 49152, 576, 1},	   /* head */
};

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
check(struct op_context *ctx, enum op_status status)
{
	if (status == OP_OK)
		return;
	fprintf(stderr, "bench_gemm: %s\n", op_last_error(ctx));
	exit(1);
}

/* Best time of one product, forward or backward. */
static double
best(struct op_context *ctx, const struct product *p, bool backward)
{
	size_t size = op_compute(ctx) == OP_BF16 ? 2 : 4, wide = backward ? p->outputs : p->inputs;
	struct op_matrix w = {.rows = p->outputs, .cols = p->inputs, .dtype = op_compute(ctx)};
	size_t stride = backward ? p->inputs : gemm_stride(ctx, p->outputs);
	void *x, *weights, *out;
	double least = 1e30, begin = seconds();

	check(ctx, op_alloc(ctx, &x, p->tokens * wide * size));
	check(ctx, op_alloc(ctx, &weights, p->outputs * p->inputs * size));
	check(ctx, op_alloc(ctx, &out, p->tokens * stride * sizeof(float)));
	/* Written once: pages that never were are all the same page of zeros, and cached. */
	check(ctx, op_zero(ctx, x, p->tokens * wide * size));
	check(ctx, op_zero(ctx, weights, p->outputs * p->inputs * size));
	w.data = weights;
	for (int i = 0; i <= RUNS || seconds() - begin < AT_LEAST; i++) {
		double start = seconds();

		if (backward)
			check(ctx, gemm_backward(ctx, out, x, &w, 0, w.rows, false, p->tokens));
		else
			check(ctx, gemm_forward(ctx, out, stride, x, &w, false, p->tokens));
		start = seconds() - start;
		least = i > 0 && start < least ? start : least; /* the first makes the code */
	}
	op_free(ctx, out);
	op_free(ctx, weights);
	op_free(ctx, x);
	return least;
}

static void
measure(const char *name, const struct op_options *options)
{
	struct op_context *ctx;
	double flops = 0.0, time = 0.0;

	check(NULL, op_open(&ctx, options));
	for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
		for (int backward = 0; backward < 2; backward++) {
			const struct product *p = &products[i];
			double n = (double)p->count;

			flops +=
			    2.0 * n * (double)p->tokens * (double)p->outputs * (double)p->inputs;
			time += n * best(ctx, p, backward);
		}
	printf("%s\t%.1f\tGFLOP/s\t%d threads, shapes of the step%s\n", name, flops / time * 1e-9,
	    op_threads(ctx),
	    options->compute != OP_BF16 ? ""
	    : ctx->native_bf16		? ", native"
					: ", no bf16 in this processor: widened to f32");
	op_close(ctx);
}

int
main(int argc, char **argv)
{
	struct op_options options = {.compute = OP_F32, .threads = argc > 1 ? atoi(argv[1]) : 0};

	measure("gemm_f32", &options);
	options.compute = OP_BF16;
	measure("gemm_bf16", &options);
	return 0;
}
