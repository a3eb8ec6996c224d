/*
 * make roofline [CARD= MODEL= TOKENS= RANK=]: what a training step would take on a card, on paper:
 * at best, by its published peaks, and as to be expected, beside PyTorch + PEFT by the same rules.
 * Nothing here was measured. One sequence of TOKENS, rank RANK on all linear layers, bfloat16.
 * Without arguments, a table of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/roofline_cards.h"
#include "tests/bench/roofline_ops.h"
#include "tests/bench/roofline_peer.h"
#include "worker/model/memory_plan.h"
#include "worker/model/model.h"

/* What peer_ops.py wrote, at this rank. */
#define PEER_OPS "tests/data/peer_ops.tsv"
enum { PEER_RANK = 8 };

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
plan_step(const struct roof_card *card, const struct roof_model *m, size_t tokens, size_t rank,
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

/* One step of a model on a card. */
struct subject {
	const struct roof_card *card;
	const struct roof_model *model;
	size_t tokens, rank;
};

struct outcome {
	struct roof_step best, expected;
	struct memory_plan plan;
	bool fits;
	size_t recompute;
};

static struct outcome
predict(const struct subject *s)
{
	struct roof_options o = {.tokens = s->tokens, .rank = s->rank};
	struct roof_rates best, expected;
	struct outcome x = {0};

	roof_rates_at_best(&best, s->card);
	roof_rates_expected(&expected, s->card);
	roof_step_make(&x.best, s->model, &o, &best);
	x.fits = plan_step(s->card, s->model, s->tokens, s->rank, x.best.adapter, &o.recompute,
		     &x.plan) == 0;
	x.recompute = o.recompute;
	roof_step_make(&x.best, s->model, &o, &best);
	roof_step_make(&x.expected, s->model, &o, &expected);
	return x;
}

/* Of the card's published peak, by flops that are not repeated. */
static double
share(const struct subject *s, const struct roof_step *step, double seconds)
{
	return (step->total.flops - step->recomputed) / (seconds * s->card->teraflops * 1e12);
}

/* The peer's step as to be expected. */
struct rival {
	struct roof_peer ops;
	double seconds; /* 0: not recorded */
	bool fits, recomputed;
};

static struct rival
rival_of(const struct subject *s, bool recomputed)
{
	struct rival r = {.recomputed = recomputed};
	struct roof_rates rates;
	FILE *f;
	int rc;

	if (s->rank != PEER_RANK)
		return r;
	f = fopen(PEER_OPS, "r");
	if (f == NULL) {
		perror(PEER_OPS);
		exit(2);
	}
	roof_rates_peer(&rates, s->card);
	rc = roof_peer_read(&r.ops, f, s->model->name, s->tokens, recomputed, &rates);
	fclose(f);
	if (rc < 0) {
		fprintf(stderr, "%s: a line is not of its form\n", PEER_OPS);
		exit(2);
	}
	if (rc == 0)
		return r;
	r.seconds = roof_seconds(&r.ops.total, ROOF_EAGER);
	r.fits = r.ops.memory <= s->card->memory * 1e9 - reserved;
	return r;
}

/* With all activations kept where they fit, else recomputed. */
static struct rival
best_rival_of(const struct subject *s)
{
	const struct rival kept = rival_of(s, false);

	return kept.fits ? kept : rival_of(s, true);
}

static const char *
layers_word(size_t recomputed, size_t layers)
{
	return recomputed == 0 ? "kept" : recomputed < layers ? "some again" : "again";
}

/* How many rows reach the targets, of how many. */
struct tally {
	size_t best, expected, of, faster, of_peers;
};

/* Of the card's bf16 peak on Hopper, and of the peer's speed. */
static const double target_share = 0.55, target_faster = 1.5;

/* " 46.3% ", or with a star where the target is reached. */
static void
print_share(const struct subject *s, double value, size_t *reached)
{
	const bool reaches = s->card->teraflops > 900 && value >= target_share;

	*reached += reaches;
	printf(" %5.1f%%%c", 100 * value, reaches ? '*' : ' ');
}

static void
print_rival(const struct subject *s, double ours, struct tally *tally)
{
	const struct rival r = best_rival_of(s);
	const double faster = r.seconds / ours;

	if (r.seconds == 0) {
		printf(" %8s\n", "-");
		return;
	}
	if (!r.fits) {
		printf(" %8s %5.1f\n", "no room", r.ops.memory / 1e9);
		return;
	}
	printf(" %8.1f %5.1f %-6s %5.2f%s\n", r.seconds * 1e3, r.ops.memory / 1e9,
	    r.recomputed ? "again" : "kept", faster, faster >= target_faster ? "*" : "");
	tally->faster += faster >= target_faster;
	tally->of_peers++;
}

static void
print_row(const struct subject *s, struct tally *tally)
{
	const struct outcome x = predict(s);
	const double best = roof_seconds(&x.best.total, ROOF_GRAPH);
	const double launched = roof_seconds(&x.expected.total, ROOF_STREAM);
	const double graph = roof_seconds(&x.expected.total, ROOF_GRAPH);

	printf("%-5s %-13s ", s->card->name, s->model->name);
	if (!x.fits) {
		printf("  does not fit: %.1f GB\n", (double)x.plan.total / 1e9);
		return;
	}
	tally->of += s->card->teraflops > 900;
	printf("%8.1f", best * 1e3);
	print_share(s, share(s, &x.best, best), &tally->best);
	printf(" %8.1f %8.1f %8.0f", launched * 1e3, graph * 1e3, (double)s->tokens / graph);
	print_share(s, share(s, &x.expected, graph), &tally->expected);
	printf(
	    " %5.1f %-10s", (double)x.plan.total / 1e9, layers_word(x.recompute, s->model->layers));
	print_rival(s, graph, tally);
}

static void
print_tally(const struct tally *t)
{
	printf("\n* reaches its target: %.0f %% of the peak on H100 and H200 (at best %zu of %zu "
	       "rows, expected %zu);\n  %.1f times PyTorch + PEFT (expected %zu of %zu rows)\n",
	    100 * target_share, t->best, t->of, t->expected, target_faster, t->faster, t->of_peers);
}

static void
print_sum(const char *words, const struct roof_sum *k, const struct roof_sum *total)
{
	if (k->ops == 0)
		return;
	printf("%-28s %6zu %12.1f %10.2f %9.3f %5.1f%%  %s\n", words, k->ops, k->flops / 1e9,
	    k->bytes / 1e9, k->seconds * 1e3, 100 * k->seconds / total->seconds,
	    k->by_bytes == 0		       ? "flops"
	    : k->by_bytes < 0.999 * k->seconds ? "flops, some bytes"
					       : "bytes");
}

static void
print_ops(const struct subject *s)
{
	const struct outcome x = predict(s);
	const struct rival r = best_rival_of(s);

	printf("\n%s on %s: the ops, expected, without what it takes to launch them\n",
	    s->model->name, s->card->name);
	printf("%-28s %6s %12s %10s %9s %6s  %s\n", "ops", "calls", "GFLOP", "GB", "ms", "share",
	    "bound by");
	for (enum roof_kind i = 0; i < ROOF_KINDS; i++)
		print_sum(roof_kind_words(i), &x.expected.kind[i], &x.expected.total);
	print_sum("the step", &x.expected.total, &x.expected.total);
	if (r.seconds == 0)
		return;
	puts("PyTorch + PEFT:");
	print_sum("products, lora and head too", &r.ops.products, &r.ops.total);
	print_sum("attention, forward", &r.ops.attention, &r.ops.total);
	print_sum("attention, backward", &r.ops.attention_backward, &r.ops.total);
	print_sum("all else", &r.ops.other, &r.ops.total);
	print_sum("the step", &r.ops.total, &r.ops.total);
}

static void
print_head(size_t tokens, size_t rank)
{
	printf("On paper; nothing here was measured. One sequence of %zu tokens, rank %zu on all "
	       "linear layers.\n\n",
	    tokens, rank);
	puts("at best         by the cards' published peaks, the step as one CUDA graph\n"
	     "expected        by what others measured of such cards (roofline_cards.c): each "
	     "kernel launched, or as a\n                graph, of which tokens/s, peak and x are\n"
	     "peak            share of the published bf16 peak; repeated flops are not counted\n"
	     "GB, layers      by the plan; again: their forward pass runs twice\n"
	     "PyTorch + PEFT  its ops as recorded (peer_ops.py: 512 and 4,096 tokens, rank 8), "
	     "expected by the same rules,\n                in its favour; x: its time by ours\n"
	     "Qwen3.5-4B      its DeltaNet layers are arithmetic only; its memory is bounded from "
	     "above\n");
	printf("%-19s %16s  %54s  %29s\n", "", "---- at best ---",
	    "---------------------- expected ----------------------",
	    "------ PyTorch + PEFT ------");
	printf("%-5s %-13s %8s %7s %9s %8s %8s %7s %5s %-10s %8s %5s %-6s %5s\n", "card", "model",
	    "ms", "peak ", "launched", "graph", "tokens/s", "peak ", "GB", "layers", "ms", "GB",
	    "layers", "x");
}

/* Figures of others, for comparison; their sequence lengths and batches are not all published. */
static void
print_references(void)
{
	static const struct {
		const char *card, *model, *words;
	} points[] = {
	    {"A100", "Llama-2-7B", "2,392 Transformers + PEFT, 4,007 Unsloth"},
	    {"A100", "Llama-3.2-3B", "8,210 torchtune"},
	    {"H100", "Llama-2-7B", "24,800 NeMo, in FP8"},
	};

	puts("\nWhat others report (LoRA, same class of card; tokens/s), beside 4,096 tokens at "
	     "rank 8 on paper:");
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
		const struct subject s = {
		    roof_card_find(points[i].card), roof_model_find(points[i].model), 4096, 8};
		const struct outcome x = predict(&s);

		printf("%-5s %-12s ours %5.0f expected, %5.0f at best; PyTorch + PEFT %5.0f "
		       "kept, %5.0f again; reported: %s\n",
		    points[i].card, points[i].model,
		    4096 / roof_seconds(&x.expected.total, ROOF_GRAPH),
		    4096 / roof_seconds(&x.best.total, ROOF_GRAPH),
		    4096 / rival_of(&s, false).seconds, 4096 / rival_of(&s, true).seconds,
		    points[i].words);
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
	struct subject s = {.tokens = number("TOKENS", 4096), .rank = number("RANK", 8)};
	struct tally tally = {0};
	size_t rows = 0;

	print_head(s.tokens, s.rank);
	for (size_t i = 0; (s.card = roof_card_at(i)) != NULL; i++) {
		for (size_t j = 0; (s.model = roof_model_at(j)) != NULL; j++) {
			if ((card != NULL && strcmp(card, s.card->name) != 0) ||
			    (model != NULL && strcmp(model, s.model->name) != 0))
				continue;
			print_row(&s, &tally);
			rows++;
			if (card != NULL && model != NULL)
				print_ops(&s);
		}
	}
	if (rows == 0) {
		fprintf(stderr, "no such CARD or MODEL: A10, L4, A100, H100, H200; the models are "
				"in tests/bench/roofline_models.c\n");
		return 2;
	}
	print_tally(&tally);
	print_references();
	return 0;
}
