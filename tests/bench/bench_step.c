/*
 * Whole training steps of a model of random weights, as a session does them: loading, the memory
 * that was planned against what the device has less, the same bits again, also as CUDA graphs, and
 * the speed beside what this device reached in the same run and what the step's ops allow at that
 * (roofline_ops.h). Rank 8 on all linear layers, sequences that are supervised as a whole.
 *
 *	bench_step [f32|bf16] [model] [tokens] [folder]
 *	bench_step config model
 *
 * The model's weights, 2 bytes a parameter, lie in memory, or in the folder where that is short.
 * Lines that begin with "row" are for tests/check_gpu.sh. The second form writes the model's
 * config.json to standard output.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/repeat.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/random_model.h"
#include "tests/bench/roofline_cards.h"
#include "tests/bench/roofline_ops.h"

enum { RUNS = 4, TWICE = 3 };

static const struct roof_model tiny = {"tiny", 2, 64, 2, 1, 64, 96, 512, true, 0, 0, 0, 0};

static void *
random_memory(struct op_context *ops, size_t bytes)
{
	uint16_t *host = malloc(bytes);
	void *device = NULL;

	if (host == NULL)
		bench_die("no memory");
	for (size_t i = 0; i < bytes / 2; i++) /* bfloat16, or float32 of two, near 1 */
		host[i] = (uint16_t)(0x3f00 | (i * 40503u >> 7 & 0x807f));
	bench_check(op_alloc(ops, &device, bytes), ops);
	bench_check(op_upload(ops, device, host, bytes), ops);
	bench_check(op_sync(ops), ops);
	free(host);
	return device;
}

/* Seconds of the best of some runs. */
#define BEST(least, ops, call)                                                                     \
	do {                                                                                       \
		(least) = 1e30;                                                                    \
		for (int run = 0; run <= RUNS; run++) {                                            \
			double begin = bench_seconds();                                            \
			bench_check(call, ops);                                                    \
			bench_check(op_sync(ops), ops);                                            \
			begin = bench_seconds() - begin;                                           \
			(least) = run > 0 && begin < (least) ? begin : (least);                    \
		}                                                                                  \
	} while (0)

/* What the GEMM library reaches on a large square product, and the memory in op_add. */
static void
measure_peaks(struct bench *b)
{
	const size_t n = b->model == &tiny ? 128 : 8192, size = b->compute == OP_BF16 ? 2 : 4;
	void *x = random_memory(b->ops, n * n * size), *w = random_memory(b->ops, n * n * size);
	void *out = random_memory(b->ops, n * n * 4), *in = random_memory(b->ops, n * n * 4);
	const struct op_matrix matrix = {w, n, n, b->compute};
	double time;

	BEST(time, b->ops, op_linear(b->ops, out, x, &matrix, NULL, false, n));
	b->rates.flops = b->rates.attention = b->rates.single = 2 * (double)(n * n * n) / time;
	BEST(time, b->ops, op_add(b->ops, out, in, x, n * n));
	b->rates.bytes = (double)(n * n * (8 + size)) / time;
	printf("this device: %.1f TFLOP/s in a product of %zu, %.0f GB/s\n", b->rates.flops / 1e12,
	    n, b->rates.bytes / 1e9);
	bench_check(op_free(b->ops, x), b->ops);
	bench_check(op_free(b->ops, w), b->ops);
	bench_check(op_free(b->ops, out), b->ops);
	bench_check(op_free(b->ops, in), b->ops);
}

static size_t
device_left(void)
{
	struct device_info info;

	bench_check(device_memory(&info, 0), NULL);
	return info.memory_free;
}

/* That the last steps really were graphs, where there is all the room for them. */
static void
tell_graphs(struct bench *b)
{
	const struct repeat_counts c = repeat_counted(b->ops);

	printf("CUDA graphs: %zu of %.1f MB, of %.1f that they may take; launched %llu times\n",
	    c.graphs, (double)c.bytes / 1e6, (double)b->t->plan.graphs / 1e6,
	    (unsigned long long)c.launched);
	bench_tell(b, *repeat_trouble(b->ops) == '\0', repeat_trouble(b->ops));
	if (b->t->plan.graphs == MEMORY_GRAPHS)
		bench_tell(b, c.launched >= TWICE - 1, "graphs are launched");
}

/* What some steps leave, from the start. */
struct trained {
	struct trainer_result last;
	float *param;
};

static struct trained
train(struct bench *b, const float *start, const float *zeros, bool graphs)
{
	struct trained out = {.param = malloc(trainer_adapter(b->t)->size * sizeof(float))};
	struct refusal r;

	if (out.param == NULL)
		bench_die("no memory");
	repeat_allow(b->ops, graphs ? b->t->plan.graphs : 0);
	bench_set(b, start, zeros);
	for (int n = 0; n < TWICE; n++)
		out.last = bench_step(b, MOST);
	if (trainer_get(b->t, out.param, NULL, NULL, &r) != 0)
		bench_die("%s", r.text);
	return out;
}

static bool
is_same(const struct trained *a, const struct trained *b, size_t size)
{
	return memcmp(&a->last, &b->last, sizeof(a->last)) == 0 &&
	       memcmp(a->param, b->param, size * sizeof(float)) == 0;
}

/* Some steps, the same again, and again with their passes as CUDA graphs, where there are any. */
static void
same_again(struct bench *b)
{
	const size_t size = trainer_adapter(b->t)->size;
	float *start = malloc(size * sizeof(float)), *zeros = calloc(size, sizeof(float));
	struct trained runs[3];
	struct refusal r;

	if (start == NULL || zeros == NULL)
		bench_die("no memory");
	if (trainer_get(b->t, start, NULL, NULL, &r) != 0)
		bench_die("%s", r.text);
	for (int i = 0; i < 3; i++)
		runs[i] = train(b, start, zeros, i == 2);
	printf("loss %.6f, norm %.6g after %d steps of %d sequences, three times\n",
	    runs[0].last.loss, runs[0].last.gradient_norm, TWICE, MOST);
	bench_tell(b,
	    is_same(&runs[0], &runs[1], size) &&
		memcmp(runs[0].param, start, size * sizeof(float)) != 0,
	    "the same steps have the same bits");
	bench_tell(b, is_same(&runs[0], &runs[2], size), "and as CUDA graphs");
	bench_tell(
	    b, isfinite(runs[0].last.loss) && runs[0].last.gradient_norm > 0, "the loss is finite");
	if (strcmp(device_backend(), "cuda") == 0)
		tell_graphs(b);
	for (int i = 0; i < 3; i++)
		free(runs[i].param);
	free(start);
	free(zeros);
}

/* Model, tokens, sequences, ms, tokens/s, TFLOP/s, the share that this is of the measured product
   and of the card's data sheet, the roofline's ms, and its share of the step's. */
static void
print_row(const struct bench *b, size_t count, double time, const struct roof_step *roof)
{
	const double flops = (double)count * (roof->total.flops - roof->recomputed) / time;
	const double best = (double)count * roof->total.seconds;
	const struct roof_card *card = roof_card_of(b->device);
	char share[32] = "-";

	if (card != NULL && b->compute == OP_BF16)
		snprintf(share, sizeof(share), "%.1f", 100 * flops / (card->teraflops * 1e12));
	printf("row\t%s\t%zu\t%zu\t%.2f\t%.0f\t%.1f\t%.1f\t%s\t%.2f\t%.1f\n", b->model->name,
	    b->tokens, count, time * 1e3, (double)(count * b->tokens) / time, flops / 1e12,
	    100 * flops / b->rates.flops, share, best * 1e3, 100 * best / time);
}

/* Seconds of the best of some steps; of CUDA graphs, where they are allowed. */
static double
time_steps(struct bench *b, size_t count, bool graphs)
{
	double least = 1e30;

	repeat_allow(b->ops, graphs ? b->t->plan.graphs : 0);
	/* the first two: not yet graphs */
	for (int run = -1; run <= RUNS; run++) {
		double begin = bench_seconds();

		bench_step(b, count);
		begin = bench_seconds() - begin;
		least = run > 0 && begin < least ? begin : least;
	}
	return least;
}

/* Steps of `count` sequences beside the roofline. */
static void
measure_steps(struct bench *b, size_t count)
{
	struct roof_options o = {.tokens = b->tokens,
	    .rank = RANK,
	    .recompute = b->t->plan.recompute,
	    .f32 = b->compute == OP_F32};
	const double without = time_steps(b, count, false), least = time_steps(b, count, true);
	const double tokens = (double)(count * b->tokens);
	struct roof_step roof;

	roof_step_make(&roof, b->model, &o, &b->rates);
	/* each sequence as a pass of its own: packed ones read the weights once, so they can be
	   better */
	printf("%zu x %zu tokens: %.1f ms, %.0f tokens/s, %.1f TFLOP/s: %.0f %% of the product's "
	       "peak, %.0f %% of the roofline's %.0f tokens/s\n",
	    count, b->tokens, least * 1e3, tokens / least,
	    (double)count * (roof.total.flops - roof.recomputed) / least / 1e12,
	    100 * (double)count * (roof.total.flops - roof.recomputed) / least / b->rates.flops,
	    100 * (double)count * roof.total.seconds / least,
	    (double)b->tokens / roof.total.seconds);
	if (strcmp(device_backend(), "cuda") == 0)
		printf("%.2f ms without CUDA graphs, %.2f ms with\n", without * 1e3, least * 1e3);
	bench_tell(b, least > 0, "a step takes time");
	print_row(b, count, least, &roof);
}

/* Beside the plan a driver takes memory for kernels that it loads, of which the plan leaves room.
 */
static void
check_memory(struct bench *b, size_t before)
{
	const double plan = (double)b->t->plan.total, room = 512 << 20;
	const double graphs = (double)repeat_counted(b->ops).bytes;
	const double used = (double)before - (double)device_left() - graphs;

	printf("memory: %.2f GB planned, %.2f GB taken\n", plan / 1e9, used / 1e9);
	bench_tell(
	    b, used >= 0.95 * plan && used <= 1.05 * plan + room, "the plan is what is taken");
}

int
main(int argc, char **argv)
{
	struct bench b = {.compute = argc > 1 && strcmp(argv[1], "f32") == 0 ? OP_F32 : OP_BF16,
	    .model = argc > 2 ? roof_model_find(argv[2]) : &tiny,
	    .tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : 64};
	const struct op_options options = {.compute = b.compute};
	struct device_info info;
	size_t before;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (b.model == NULL && strcmp(argv[2], "tiny") == 0)
		b.model = &tiny;
	if (argc == 3 && b.model != NULL && strcmp(argv[1], "config") == 0) {
		random_model_config(b.model, stdout);
		return 0;
	}
	if (b.model == NULL || b.model->full_every != 0 || b.tokens == 0)
		bench_die("usage: bench_step [f32|bf16] [model] [tokens] [folder]");
	bench_folder(argc > 4 ? argv[4] : "/tmp");
	bench_check(device_describe(&info, 0), NULL);
	b.device = info.name;
	bench_check(op_open(&b.ops, &options), NULL);
	printf("%s, %s, on %s\n", b.model->name, b.compute == OP_F32 ? "f32" : "bf16", info.name);
	measure_peaks(&b);
	bench_datums(&b);
	before = device_left();
	bench_load(&b);
	same_again(&b);
	measure_steps(&b, 1);
	measure_steps(&b, MOST);
	check_memory(&b, before);
	trainer_free(b.t);
	model_files_free(b.files);
	op_close(b.ops);
	printf("%d passed, %d failed\n", b.passed, b.failed);
	return b.failed != 0;
}
