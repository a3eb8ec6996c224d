/*
 * Where a training step spends its time, op by op: eight sequences, a quarter of the rows
 * supervised, rank 8 on every linear layer; SmolLM2-135M with 1024 tokens unless another model is
 * named. Each line is an op at one of its shapes: best time of some runs, how often the step has
 * it, its share of the step, and how much it does.
 *
 *	bench_ops [f32|bf16] [threads] [model]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/ops.h"

enum { R = 8, RUNS = 4, SEQUENCES = 8 };

/* Shapes alone: the weights are any numbers. */
static const struct model {
	const char *name;
	size_t tokens, width, heads, kv_heads, head_dim, mlp, vocabulary, layers;
} models[] = {
    {"smollm2-135m", 1024, 576, 9, 3, 64, 1536, 49152, 30},
    {"llama-3.2-1b", 4096, 2048, 32, 8, 64, 8192, 128256, 16},
    {"llama-3.1-8b", 4096, 4096, 32, 8, 128, 14336, 128256, 32},
    {"tiny", 64, 64, 2, 1, 64, 96, 128, 2},
};
static size_t T, D, H, G, E, F, V, M, L, adapter;

static struct op_context *ctx;
static enum op_dtype act;
static void *a, *b, *c, *d, *e; /* activations and float32, large enough for all */
static float *rstd, *xa, *lse, *zeros;
static int32_t *ids;
static uint32_t start[SEQUENCES + 1];
static struct op_packing packing;
static struct op_attention_shape attention;
static struct op_matrix weights;
static struct op_lora_linear lora;
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

/* Numbers of either type between 2^-7 and 2^-5, of both signs: a GPU that multiplies zeros takes
   less power for it, and so is faster than it would be. */
static void *
numbers(size_t bytes)
{
	static uint16_t piece[1 << 19];
	uint32_t x = 1;
	char *out = memory(bytes);

	for (size_t i = 0; i < sizeof(piece) / sizeof(*piece); i++) {
		x = x * 1664525u + 1013904223u;
		piece[i] = (uint16_t)(0x3c00 | (x >> 16 & 0x80ff));
	}
	for (size_t at = 0; at < bytes; at += sizeof(piece)) {
		size_t size = bytes - at < sizeof(piece) ? bytes - at : sizeof(piece);

		check(op_upload(ctx, out + at, piece, size));
	}
	check(op_sync(ctx));
	return out;
}

/* Work is GFLOP or, where the unit says so, GB of one call. */
static void
line(const char *name, double time, size_t count, double work, const char *unit)
{
	total += time * (double)count;
	printf("%-34s %8.3f ms x %3zu = %7.1f ms  %7.1f %s\n", name, time * 1e3, count,
	    time * 1e3 * (double)count, work / time, unit);
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
layer(const char *name, size_t outputs, size_t inputs, size_t count)
{
	double flops = 2e-9 * (double)T * (double)outputs * (double)inputs;
	double low = 2e-9 * (double)T * R * (double)(outputs + inputs);
	char text[64];

	weights.rows = outputs;
	weights.cols = inputs;
	snprintf(text, sizeof(text), "linear %s %zux%zu", name, outputs, inputs);
	MEASURE(text, count, flops, "GFLOP/s", op_linear(ctx, b, a, &weights, NULL, true, T));
	snprintf(text, sizeof(text), "linear_backward %s", name);
	MEASURE(text, count, flops, "GFLOP/s", op_linear_backward(ctx, b, a, &weights, true, T));
	snprintf(text, sizeof(text), "lora %s", name);
	lora.outputs = outputs;
	MEASURE(text, count, low, "GFLOP/s", op_lora(ctx, &lora, 1, a, T, inputs));
	snprintf(text, sizeof(text), "lora_backward %s", name);
	MEASURE(text, count, 2 * low, "GFLOP/s", op_lora_backward(ctx, b, &lora, 1, a, T, inputs));
}

static void
elementwise(void)
{
	double n = 4e-9 * (double)T, d_model = (double)D, size = act == OP_BF16 ? 2 : 4;
	double narrow = 1e-9 * (double)T * size;

	MEASURE("rmsnorm", 2 * L + 1, (n + narrow) * d_model, "GB/s",
	    op_rmsnorm(ctx, b, rstd, a, zeros, 1e-5f, false, T, D));
	MEASURE("rmsnorm_backward", 2 * L, (3 * n + (act == OP_BF16 ? 2 : 1) * narrow) * d_model,
	    "GB/s",
	    op_rmsnorm_backward(ctx, b, act == OP_BF16 ? d : NULL, c, a, zeros, rstd, false, T, D));
	MEASURE("rope q", 2 * L, narrow * d_model * 2, "GB/s",
	    op_rope(ctx, b, &packing, zeros, E / 2, 1.0f, false, H, E));
	MEASURE("rope k", 2 * L, narrow * (double)(G * E) * 2, "GB/s",
	    op_rope(ctx, b, &packing, zeros, E / 2, 1.0f, true, G, E));
	MEASURE(
	    "swiglu", 2 * L - 1, narrow * (double)F * 3, "GB/s", op_swiglu(ctx, c, a, b, T * F));
	MEASURE("swiglu_backward", L, narrow * (double)F * 5, "GB/s",
	    op_swiglu_backward(ctx, c, d, c, a, b, T * F));
	MEASURE("add_rmsnorm", 2 * L - 1, (2 * n + 2 * narrow) * d_model, "GB/s",
	    op_add_rmsnorm(ctx, e, rstd, b, c, d, zeros, 1e-5f, false, T, D));
	MEASURE("add", 1, (2 * n + narrow) * d_model, "GB/s", op_add(ctx, b, c, d, T * D));
	MEASURE("round", 2, (n + narrow) * d_model, "GB/s", op_round(ctx, b, c, T * D));
	MEASURE("embed", 1, n * d_model * 2, "GB/s", op_embed(ctx, b, &weights, ids, T));
	MEASURE("adamw", 1, 28e-9 * (double)adapter, "GB/s",
	    op_adamw(ctx, a, b, c, d, &(struct op_adamw){1e-4, 0.9, 0.999, 1e-8, 0.01, 1.0, 1},
		adapter));
}

static void
step(void)
{
	double each = (double)(T / SEQUENCES), norm;
	double scores = 2e-9 * SEQUENCES * (double)(H * E) * each * (each + 1.0) / 2.0;
	size_t index;
	double *logp = memory(M * sizeof(*logp));

	layer("q o", H * E, D, 2 * L);
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
	MEASURE("head_loss", 1, 4e-9 * (double)(M * V) * (double)D, "GFLOP/s",
	    op_head_loss(ctx, logp, c, a, &weights, ids, zeros, M));
	MEASURE("sum_squares", 1, 4e-9 * (double)adapter, "GB/s",
	    op_sum_squares(ctx, &norm, d, adapter));
	MEASURE("first_nonfinite", 1, 4e-9 * (double)adapter, "GB/s",
	    op_first_nonfinite(ctx, &index, d, adapter));
	printf("%-34s %29.1f ms  %7.0f tokens/s\n", "all", total * 1e3, (double)T / total);
	check(op_free(ctx, logp));
}

static void
take_shape(const struct model *m)
{
	T = m->tokens, D = m->width, H = m->heads, G = m->kv_heads, E = m->head_dim;
	F = m->mlp, V = m->vocabulary, M = T / 4, L = m->layers;
	adapter = L * R * (2 * (D + H * E) + 2 * (D + G * E) + 3 * (D + F));
	for (uint32_t s = 0; s <= SEQUENCES; s++)
		start[s] = s * (uint32_t)(T / SEQUENCES);
	packing = (struct op_packing){start, NULL, SEQUENCES, T};
	attention = (struct op_attention_shape){H, G, E, 0, 0.125f};
}

static const struct model *
find_model(const char *name)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (strcmp(models[i].name, name) == 0)
			return &models[i];
	return NULL;
}

int
main(int argc, char **argv)
{
	struct op_options options = {.threads = argc > 2 ? atoi(argv[2]) : 0};
	const struct model *model = models;
	size_t bytes;

	if (argc > 3)
		model = find_model(argv[3]);
	if (model == NULL) {
		fprintf(stderr, "bench_ops: no model is named %s\n", argv[3]);
		return 2;
	}
	take_shape(model);
	bytes = sizeof(float) * (adapter > T * F ? adapter : T * F);
	bytes = sizeof(float) * T * H * E > bytes ? sizeof(float) * T * H * E : bytes;

	act = argc > 1 && strcmp(argv[1], "bf16") == 0 ? OP_BF16 : OP_F32;
	options.compute = act;
	if (op_open(&ctx, &options) != OP_OK) {
		fprintf(stderr, "bench_ops: %s\n", op_last_error(NULL));
		return 1;
	}
	weights = (struct op_matrix){numbers((size_t)V * D * 4), 0, 0, act};
	a = numbers(bytes), b = numbers(bytes), c = numbers(bytes), d = numbers(bytes);
	e = numbers(bytes);
	rstd = memory(T * sizeof(float)), xa = memory(T * R * sizeof(float));
	lse = memory(T * H * sizeof(float)), zeros = memory(bytes);
	ids = memory(T * sizeof(int32_t));
	packing.position = memory(T * sizeof(int32_t));
	lora = (struct op_lora_linear){.lora = {weights.data, weights.data, R, 2.0f},
	    .xa = xa,
	    .out = b,
	    .dout = c,
	    .da = d,
	    .db = e};
	step();
	op_close(ctx); /* the memory goes with the process */
	return 0;
}
