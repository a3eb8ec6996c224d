/*
 * Where a training step of SmolLM2-135M spends its time, op by op: T = 1024 tokens (8 sequences of
 * 128), 256 supervised rows, rank 8 on every linear layer. Each line is an op at one of its shapes:
 * best time of some runs, how often the step has it, its share of the step, and how much it does.
 *
 *	bench_ops [f32|bf16] [threads]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/ops.h"

enum { T = 1024, D = 576, H = 9, G = 3, E = 64, F = 1536, V = 49152, M = 256, R = 8, L = 30 };
enum { ADAPTER = L * R * (2 * D + 2 * (D + G * E) + 2 * D + 3 * (D + F)), RUNS = 4 };

static struct op_context *ctx;
static enum op_dtype act;
static void *a, *b, *c, *d, *e; /* activations and float32, large enough for all */
static float *rstd, *xa, *lse, *zeros;
static int32_t *ids;
static const uint32_t start[] = {0, 128, 256, 384, 512, 640, 768, 896, 1024};
static struct op_packing packing = {start, NULL, 8, T};
static const struct op_attention_shape attention = {H, G, E, 0, 0.125f};
static struct op_matrix weights;
static struct op_lora lora;
static double total;

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
check(enum op_status status)
{
	if (status == OP_OK)
		return;
	fprintf(stderr, "bench_ops: %s\n", op_last_error(ctx));
	exit(1);
}

static void *
memory(size_t bytes)
{
	void *out;

	check(op_alloc(ctx, &out, bytes));
	check(op_zero(ctx, out, bytes)); /* pages of its own, not the one page of zeros */
	return out;
}

/* Work is GFLOP or, where the unit says so, GB of one call. */
static void
line(const char *name, double time, int count, double work, const char *unit)
{
	total += time * count;
	printf("%-34s %8.3f ms x %3d = %7.1f ms  %7.1f %s\n", name, time * 1e3, count,
	    time * 1e3 * count, work / time, unit);
}

#define MEASURE(name, count, work, unit, call)                                                     \
	do {                                                                                       \
		double least = 1e30;                                                               \
		for (int run = 0; run <= RUNS; run++) {                                            \
			double begin = seconds();                                                  \
			check(call);                                                               \
			check(op_sync(ctx));                                                       \
			begin = seconds() - begin;                                                 \
			least = run > 0 && begin < least ? begin : least;                          \
		}                                                                                  \
		line(name, least, count, work, unit);                                              \
	} while (0)

static void
layer(const char *name, size_t outputs, size_t inputs, int count)
{
	double flops = 2e-9 * T * (double)outputs * (double)inputs;
	double low = 2e-9 * T * R * (double)(outputs + inputs);
	char text[64];

	weights.rows = outputs;
	weights.cols = inputs;
	snprintf(text, sizeof(text), "linear %s %zux%zu", name, outputs, inputs);
	MEASURE(text, count, flops, "GFLOP/s", op_linear(ctx, b, a, &weights, NULL, T));
	snprintf(text, sizeof(text), "linear_backward %s", name);
	MEASURE(text, count, flops, "GFLOP/s", op_linear_backward(ctx, b, a, &weights, true, T));
	snprintf(text, sizeof(text), "lora %s", name);
	MEASURE(text, count, low, "GFLOP/s", op_lora(ctx, b, xa, a, &lora, T, outputs, inputs));
	snprintf(text, sizeof(text), "lora_backward %s", name);
	MEASURE(text, count, 2 * low, "GFLOP/s",
	    op_lora_backward(ctx, b, (float *)d, (float *)e, c, a, xa, &lora, T, outputs, inputs));
}

static void
elementwise(void)
{
	double n = 4e-9 * T;
	size_t size = act == OP_BF16 ? 2 : 4;

	MEASURE("rmsnorm", 2 * L + 1, n * D * 2, "GB/s",
	    op_rmsnorm(ctx, b, rstd, a, zeros, 1e-5f, false, T, D));
	MEASURE("rmsnorm_backward", 2 * L + 1, n * D * 4, "GB/s",
	    op_rmsnorm_backward(ctx, b, c, a, zeros, rstd, false, T, D));
	MEASURE("rope q", 2 * L, n * D * 2, "GB/s",
	    op_rope(ctx, b, &packing, zeros, E / 2, 1.0f, false, H, E));
	MEASURE("rope k", 2 * L, n * G * E * 2, "GB/s",
	    op_rope(ctx, b, &packing, zeros, E / 2, 1.0f, true, G, E));
	MEASURE("swiglu", L, 1e-9 * T * F * 3.0 * (double)size, "GB/s",
	    op_swiglu(ctx, c, a, b, (size_t)T * F));
	MEASURE("swiglu_backward", L, 1e-9 * T * F * (12.0 + 2.0 * (double)size), "GB/s",
	    op_swiglu_backward(ctx, c, d, c, a, b, (size_t)T * F));
	MEASURE("add", 2 * L, n * D * 3, "GB/s", op_add(ctx, b, c, (size_t)T * D));
	MEASURE("round D", 4 * L, 1e-9 * T * D * (4.0 + (double)size), "GB/s",
	    op_round(ctx, b, c, (size_t)T * D));
	MEASURE("round F", 3 * L, 1e-9 * T * F * (4.0 + (double)size), "GB/s",
	    op_round(ctx, b, c, (size_t)T * F));
	MEASURE("embed", 1, n * D * 2, "GB/s", op_embed(ctx, b, &weights, ids, T));
	MEASURE("adamw", 1, 28e-9 * ADAPTER, "GB/s",
	    op_adamw(ctx, a, b, c, d, &(struct op_adamw){1e-4, 0.9, 0.999, 1e-8, 0.01, 1.0, 1},
		ADAPTER));
}

static void
step(void)
{
	double scores = 2e-9 * 8 * H * E * (128.0 * 129.0 / 2.0), norm;
	size_t index;
	static double logp[M];

	layer("q o", D, D, 2 * L);
	layer("k v", G * E, D, 2 * L);
	layer("gate up", F, D, 2 * L);
	layer("down", D, F, L);
	MEASURE("attention", L, 2 * scores, "GFLOP/s",
	    op_attention(ctx, c, lse, a, b, b, &packing, &attention));
	MEASURE("attention_backward", L, 5 * scores, "GFLOP/s",
	    op_attention_backward(ctx, c, d, e, a, a, lse, a, b, b, &packing, &attention));
	elementwise();
	weights.rows = V;
	weights.cols = D;
	MEASURE("head_loss", 1, 4e-9 * M * V * D, "GFLOP/s",
	    op_head_loss(ctx, logp, c, a, &weights, ids, zeros, M));
	MEASURE("sum_squares", 1, 4e-9 * ADAPTER, "GB/s", op_sum_squares(ctx, &norm, d, ADAPTER));
	MEASURE("first_nonfinite", 1, 4e-9 * ADAPTER, "GB/s",
	    op_first_nonfinite(ctx, &index, d, ADAPTER));
	printf("%-34s %29.1f ms  %7.1f GFLOP/s over 495\n", "all", total * 1e3, 495.0 / total);
}

int
main(int argc, char **argv)
{
	struct op_options options = {.threads = argc > 2 ? atoi(argv[2]) : 0};
	size_t bytes = sizeof(float) * (ADAPTER > T * F ? ADAPTER : T * F);

	act = argc > 1 && strcmp(argv[1], "bf16") == 0 ? OP_BF16 : OP_F32;
	options.compute = act;
	if (op_open(&ctx, &options) != OP_OK) {
		fprintf(stderr, "bench_ops: %s\n", op_last_error(NULL));
		return 1;
	}
	weights = (struct op_matrix){memory((size_t)V * D * 4), 0, 0, act};
	a = memory(bytes), b = memory(bytes), c = memory(bytes), d = memory(bytes);
	e = memory(bytes);
	rstd = memory(T * sizeof(float)), xa = memory(T * R * sizeof(float));
	lse = memory(T * H * sizeof(float)), zeros = memory(bytes);
	ids = memory(T * sizeof(int32_t));
	packing.position = memory(T * sizeof(int32_t));
	lora = (struct op_lora){zeros, zeros, R, 2.0f};
	step();
	op_close(ctx); /* the memory goes with the process */
	return 0;
}
