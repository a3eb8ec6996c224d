/*
 * make roofline [CARD= MODEL= TOKENS= RANK=]: what a training step would take at best on a card, by
 * its published peaks and the ops of the step. Paper: nothing here was measured. One sequence of
 * TOKENS, rank RANK on all linear layers, bfloat16. Without arguments, a table of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/roofline_ops.h"
#include "worker/model/memory_plan.h"
#include "worker/model/model.h"

struct card {
	const char *name;
	double teraflops; /* bfloat16 tensor cores, dense, float32 accumulation */
	double single;	  /* teraflops of float32, no tensor cores */
	double gigabytes; /* per second */
	double memory;	  /* GB */
};

/* Makers' data sheets; where they tell only the figure with sparsity, half of it. */
static const struct card cards[] = {
    /* NVIDIA A10 datasheet (2021): BF16 125 TF, 250 with sparsity; FP32 31.2 TF; 24 GB, 600 GB/s */
    {"A10", 125, 31.2, 600, 24},
    /* NVIDIA L4 datasheet (2023): BFLOAT16 242 TF with sparsity; FP32 30.3 TF; 24 GB, 300 GB/s */
    {"L4", 121, 30.3, 300, 24},
    /* NVIDIA A100 datasheet (2021), SXM 80 GB: BF16 312 TF, FP32 19.5 TF; 2,039 GB/s */
    {"A100", 312, 19.5, 2039, 80},
    /* NVIDIA H100 datasheet (2023), SXM: BFLOAT16 1,979 TF with sparsity, FP32 67 TF; 3.35 TB/s */
    {"H100", 989.5, 67, 3350, 80},
    /* NVIDIA H200 datasheet (2024), SXM: BFLOAT16 1,979 TF with sparsity, FP32 67 TF; 4.8 TB/s */
    {"H200", 989.5, 67, 4800, 141},
};

enum { CARDS = sizeof(cards) / sizeof(*cards) };

/* Driver, kernels and what a display takes: left out of the plan. */
static const double reserved = 1.5e9;

/* The plan's config: a model with gated DeltaNet is bounded from above, as in test_memory_plan.c.
 */
static struct model_config
config_of(const struct roof_model *m)
{
	const size_t wider = m->full_every != 0 ? 2 : 1;

	return (struct model_config){.family = "none",
	    .prefix = "model",
	    .vocabulary = m->vocabulary,
	    .width = m->width,
	    .heads = wider * m->heads,
	    .kv_heads = m->full_every != 0 ? m->heads : m->kv_heads,
	    .head_dim = m->head_dim,
	    .mlp_width = m->mlp_width,
	    .layer_count = m->layers,
	    .layers = calloc(m->layers, sizeof(struct model_layer)),
	    .rope.half = m->head_dim / 2,
	    .tied_head = m->tied};
}

/* Does the step fit? 0 with *recompute, the layers whose forward pass runs twice, or -1. */
static int
plan_step(const struct card *card, const struct roof_model *m, size_t tokens, size_t rank,
    size_t adapter, size_t *recompute, struct memory_plan *plan)
{
	struct model_config c = config_of(m);
	struct memory_request q = {.config = &c,
	    .backend = {.cuda = true, .native_bf16 = true, .threads = 1},
	    .compute = OP_BF16,
	    .rank = rank,
	    .adapter = adapter,
	    .tokens = tokens,
	    .micro_batch = tokens,
	    .limit = (size_t)(card->memory * 1e9 - reserved)};
	struct refusal r;
	int rc;

	if (c.layers == NULL)
		return -1;
	rc = memory_plan_make(plan, &q, &r);
	*recompute = plan->recompute;
	free(c.layers);
	return rc;
}

struct outcome {
	struct roof_step step;
	struct memory_plan plan;
	bool fits;
	size_t recompute;
	double tokens_per_second, useful; /* fraction of the peak by flops that are not repeated */
};

static struct outcome
predict(const struct card *card, const struct roof_model *m, size_t tokens, size_t rank)
{
	const struct roof_rates rates = {
	    card->teraflops * 1e12, card->single * 1e12, card->gigabytes * 1e9};
	struct roof_options o = {.tokens = tokens, .rank = rank};
	struct outcome x = {0};

	roof_step_make(&x.step, m, &o, &rates);
	x.fits = plan_step(card, m, tokens, rank, x.step.adapter, &o.recompute, &x.plan) == 0;
	x.recompute = o.recompute;
	roof_step_make(&x.step, m, &o, &rates);
	x.tokens_per_second = (double)tokens / x.step.total.seconds;
	x.useful = (x.step.total.flops - x.step.recomputed) / (x.step.total.seconds * rates.flops);
	return x;
}

static void
print_row(const struct card *card, const struct roof_model *m, size_t tokens, size_t rank)
{
	const struct outcome x = predict(card, m, tokens, rank);

	if (!x.fits) {
		printf("%-5s %-13s %6zu %5zu   does not fit: %.1f GB\n", card->name, m->name,
		    tokens, rank, (double)x.plan.total / 1e9);
		return;
	}
	printf("%-5s %-13s %6zu %5zu %9.2f %9.0f %8.1f%% %8.1f%% %7.1f  %s\n", card->name, m->name,
	    tokens, rank, x.step.total.seconds * 1e3, x.tokens_per_second, 100 * x.useful,
	    100 * x.step.total.by_bytes / x.step.total.seconds, (double)x.plan.total / 1e9,
	    x.recompute == 0	      ? "kept"
	    : x.recompute < m->layers ? "some recomputed"
				      : "recomputed");
}

static void
print_ops(const struct card *card, const struct roof_model *m, size_t tokens, size_t rank)
{
	const struct outcome x = predict(card, m, tokens, rank);

	printf("\n%s on %s, %zu tokens, rank %zu\n", m->name, card->name, tokens, rank);
	printf("%-28s %6s %12s %10s %9s %6s  %s\n", "ops", "calls", "GFLOP", "GB", "ms", "share",
	    "bound by");
	for (enum roof_kind i = 0; i < ROOF_KINDS; i++) {
		const struct roof_sum *s = &x.step.kind[i];

		if (s->ops == 0)
			continue;
		printf("%-28s %6zu %12.1f %10.2f %9.3f %5.1f%%  %s\n", roof_kind_words(i), s->ops,
		    s->flops / 1e9, s->bytes / 1e9, s->seconds * 1e3,
		    100 * s->seconds / x.step.total.seconds,
		    s->by_bytes == 0	       ? "flops"
		    : s->by_bytes < s->seconds ? "flops, some bytes"
					       : "bytes");
	}
	printf("%-28s %6zu %12.1f %10.2f %9.3f\n", "the step", x.step.total.ops,
	    x.step.total.flops / 1e9, x.step.total.bytes / 1e9, x.step.total.seconds * 1e3);
}

static void
print_head(void)
{
	puts("At best, by published peaks; nothing here was measured. peak: share of the card's "
	     "bf16 peak,\nrepeated flops not counted; bytes: share of the time that memory "
	     "bounds; GB: by the plan.\nQwen3.5-4B's DeltaNet layers are arithmetic only so far: "
	     "its memory is bounded from above.\n");
	printf("%-5s %-13s %6s %5s %9s %9s %9s %9s %7s  %s\n", "card", "model", "tokens", "rank",
	    "ms", "tokens/s", "peak", "bytes", "GB", "layers");
}

/* Figures of others, for comparison; their sequence lengths and batches are not all published. */
static void
print_references(void)
{
	static const struct {
		const char *card, *model, *words;
	} points[] = {
	    {"A100", "Llama-2-7B", "4,007 tokens/s Unsloth, 2,392 Transformers + PEFT"},
	    {"A100", "Llama-3.2-3B", "8,210 tokens/s torchtune"},
	    {"H100", "Llama-2-7B", "24,800 tokens/s NeMo, in FP8"},
	};

	puts("\nWhat others report (LoRA, same class of card), beside the prediction at 4,096 "
	     "tokens, rank 16:");
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
		for (size_t j = 0; j < CARDS; j++) {
			if (strcmp(cards[j].name, points[i].card) != 0)
				continue;
			printf("%-5s %-13s at best %6.0f tokens/s; %s\n", points[i].card,
			    points[i].model,
			    predict(&cards[j], roof_model_find(points[i].model), 4096, 16)
				.tokens_per_second,
			    points[i].words);
		}
	}
}

static size_t
number(const char *name, size_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	unsigned long n;

	if (text == NULL || *text == '\0')
		return otherwise;
	n = strtoul(text, &end, 10);
	if (*end != '\0' || n == 0 || n > 1 << 24) {
		fprintf(stderr, "%s: %s is not a number from 1 to 16777216\n", name, text);
		exit(2);
	}
	return n;
}

static const char *
chosen(const char *name)
{
	const char *text = getenv(name);

	return text != NULL && *text != '\0' ? text : NULL;
}

int
main(void)
{
	const char *card = chosen("CARD"), *model = chosen("MODEL");
	const size_t tokens = number("TOKENS", 4096), rank = number("RANK", 8);
	size_t rows = 0;

	print_head();
	for (size_t i = 0; i < CARDS; i++) {
		for (size_t j = 0; roof_model_at(j) != NULL; j++) {
			const struct roof_model *m = roof_model_at(j);

			if ((card != NULL && strcmp(card, cards[i].name) != 0) ||
			    (model != NULL && strcmp(model, m->name) != 0))
				continue;
			print_row(&cards[i], m, tokens, rank);
			rows++;
			if (card != NULL && model != NULL)
				print_ops(&cards[i], m, tokens, rank);
		}
	}
	if (rows == 0) {
		fprintf(stderr, "no such CARD or MODEL: A10, L4, A100, H100, H200; the models are "
				"in tests/bench/roofline_models.c\n");
		return 2;
	}
	print_references();
	return 0;
}
