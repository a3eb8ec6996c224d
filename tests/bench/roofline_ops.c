#include "tests/bench/roofline_ops.h"

#include <math.h>
#include <string.h>

/* As published in each model's config.json; Qwen3.5-4B's text model. */
static const struct roof_model models[] = {
    {"SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, true, 0, 0, 0, 0},
    {"Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, true, 0, 0, 0, 0},
    {"Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128256, true, 0, 0, 0, 0},
    {"Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, false, 0, 0, 0, 0},
    {"Qwen3.5-4B", 32, 2560, 16, 4, 256, 9216, 248320, true, 4, 16, 32, 128},
    {"Llama-2-7B", 32, 4096, 32, 32, 128, 11008, 32000, false, 0, 0, 0, 0},
};

enum {
	DELTA_CHUNK = 64,
	/* The sizes that kernels/ uses, in the files named. */
	PARTS = 3,		/* lora.cu: bfloat16 parts of a float32 */
	HEAD_ROWS = 1024,	/* head_loss.cu */
	HEAD_LEAST = 512,	/* head_loss.cu */
	HEAD_BYTES = 256 << 20, /* head_loss.cu */
	HEAD_PANEL = 16384,	/* head_loss.cu */
};

/* The step while it is added up. T tokens, D width, R rank, A bytes of the activation type. */
struct walk {
	struct roof_step *s;
	const struct roof_model *m;
	const struct roof_rates *rates;
	double T, D, R, A;
	bool again; /* the forward pass in backward */
};

const char *
roof_kind_words(enum roof_kind kind)
{
#define ROOF_KIND_WORDS(name, words) words,
	static const char *const words[] = {ROOF_KIND_LIST(ROOF_KIND_WORDS)};
#undef ROOF_KIND_WORDS

	return words[kind];
}

const struct roof_model *
roof_model_at(size_t index)
{
	return index < sizeof(models) / sizeof(*models) ? &models[index] : NULL;
}

const struct roof_model *
roof_model_find(const char *name)
{
	for (size_t i = 0; roof_model_at(i) != NULL; i++)
		if (strcmp(models[i].name, name) == 0)
			return &models[i];
	return NULL;
}

static void
add(struct roof_sum *sum, double flops, double bytes, double seconds, bool by_bytes)
{
	sum->flops += flops;
	sum->bytes += bytes;
	sum->seconds += seconds;
	sum->by_bytes += by_bytes ? seconds : 0;
	sum->ops++;
}

/* One launch. `rate`: flops per second of the unit that does it; `work`: how often it does each. */
static void
op_of(struct walk *w, enum roof_kind kind, double flops, double bytes, double rate, double work)
{
	const double compute = flops * work / rate, move = bytes / w->rates->bytes;
	const double seconds = compute > move ? compute : move;

	add(&w->s->kind[kind], flops, bytes, seconds, move > compute);
	add(&w->s->total, flops, bytes, seconds, move > compute);
	if (w->again)
		w->s->recomputed += flops;
}

/* A launch whose few flops never bound it. */
static void
moves(struct walk *w, enum roof_kind kind, double bytes)
{
	op_of(w, kind, 0, bytes, w->rates->single, 1);
}

/* Operands in float32 leave the tensor cores out. */
static double
rate_of(const struct walk *w, double size)
{
	return size == 4 ? w->rates->single : w->rates->flops;
}

/* c (m, n) of depth k: operands of `size` bytes, of c `c` bytes an element in and out. */
static void
product(struct walk *w, enum roof_kind kind, double m, double n, double k, double size, double c)
{
	op_of(w, kind, 2 * m * n * k, size * (m + n) * k + c * m * n, rate_of(w, size), 1);
}

/* Linear layers that read the same x (T, K): N of each. */
struct group {
	double outputs[4], K;
	size_t count;
};

static double
outputs_of(const struct group *g)
{
	double sum = 0;

	for (size_t i = 0; i < g->count; i++)
		sum += g->outputs[i];
	return sum;
}

/* Elements of a rank in bfloat16 parts. */
static double
parts_of(const struct walk *w)
{
	return 8 * ceil(PARTS * w->R / 8);
}

/* lora.cu: the pairs of a group where activations are bfloat16. */
static void
lora(struct walk *w, const struct group *g)
{
	const double T = w->T, R = w->R, n = (double)g->count, N = outputs_of(g), P = parts_of(w);
	const double all = n * P;

	moves(w, ROOF_LORA, (4 * R + 2 * P) * (n * g->K + N)); /* A and B in parts */
	op_of(w, ROOF_LORA, 2 * T * n * R * g->K, 2 * (T + all) * g->K + 4 * T * all,
	    w->rates->flops, P / R);
	moves(w, ROOF_LORA, (4 * P + 4 * R + 2 * P) * n * T); /* xa, and in parts */
	for (size_t i = 0; i < g->count; i++)
		op_of(w, ROOF_LORA, 2 * T * R * g->outputs[i],
		    2 * (T + g->outputs[i]) * P + 4 * T * g->outputs[i], w->rates->flops, P / R);
}

static void
lora_backward(struct walk *w, const struct group *g, bool lowest)
{
	const double T = w->T, R = w->R, n = (double)g->count, N = outputs_of(g), P = parts_of(w);
	const double all = n * P, rate = w->rates->flops, K = g->K;

	moves(w, ROOF_LORA_BACKWARD, (4 * R + 2 * P) * (n * K + N + n * T)); /* A, B, xa in parts */
	for (size_t i = 0; i < g->count; i++) {
		const double m = g->outputs[i];

		op_of(w, ROOF_LORA_BACKWARD, 2 * T * R * m, 2 * T * m + 2 * P * m + 4 * T * P, rate,
		    P / R);
		op_of(w, ROOF_LORA_BACKWARD, 2 * T * R * m, 2 * T * m + 2 * T * P + 4 * P * m, rate,
		    P / R);
	}
	moves(w, ROOF_LORA_BACKWARD, (4 * P + 2 * 2 * P) * n * T); /* dxa in parts, twice */
	if (!lowest)
		op_of(w, ROOF_LORA_BACKWARD, 2 * T * n * R * K, 2 * (T + K) * all + 4 * T * K, rate,
		    P / R);
	op_of(
	    w, ROOF_LORA_BACKWARD, 2 * T * n * R * K, 2 * T * (K + all) + 4 * K * all, rate, P / R);
	moves(w, ROOF_LORA_BACKWARD, (4 * P + 8 * R) * (n * K + N)); /* added to the gradients */
}

/* The same in float32: four plain products for each pair, two forward. */
static void
lora_f32(struct walk *w, const struct group *g, bool backward, bool lowest)
{
	const double T = w->T, R = w->R;
	const enum roof_kind kind = backward ? ROOF_LORA_BACKWARD : ROOF_LORA;

	for (size_t i = 0; i < g->count; i++) {
		const double N = g->outputs[i];

		product(w, kind, T, R, backward ? N : g->K, 4, 4);
		if (!backward || !lowest)
			product(w, kind, T, backward ? g->K : N, R, 4, 8);
		if (!backward)
			continue;
		product(w, kind, N, R, T, 4, 8);
		product(w, kind, R, g->K, T, 4, 8);
	}
}

/* forward.c: linears. */
static void
linears(struct walk *w, const struct group *g)
{
	for (size_t i = 0; i < g->count; i++)
		product(w, ROOF_LINEAR, w->T, g->outputs[i], g->K, w->A, w->A);
	if (w->A == 4)
		lora_f32(w, g, false, false);
	else
		lora(w, g);
}

/* backward.c: linears_backward; without W where nothing below needs the gradient. */
static void
linears_backward(struct walk *w, const struct group *g, bool lowest)
{
	for (size_t i = 0; i < g->count && !lowest; i++)
		product(w, ROOF_LINEAR_BACKWARD, w->T, g->K, g->outputs[i], w->A,
		    (i > 0 ? 2 : 1) * w->A);
	if (w->A == 4)
		lora_f32(w, g, true, lowest);
	else
		lora_backward(w, g, lowest);
}

/* One linear layer, N outputs, K inputs. */
static struct group
single(double N, double K)
{
	return (struct group){{N}, K, 1};
}

/* The float32 gradient of the residual stream, rounded. */
static void
narrow(struct walk *w)
{
	if (w->A != 4)
		moves(w, ROOF_ROUND, (4 + w->A) * w->T * w->D);
}

/* The mixer's linear layers: those that read the norm, and the last one. */
struct mixer {
	struct group first, last;
};

static bool
is_delta(const struct roof_model *m, size_t layer)
{
	return m->full_every != 0 && (layer + 1) % m->full_every != 0;
}

static struct mixer
mixer_of(const struct roof_model *m, size_t layer)
{
	const double q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
	const double key = (double)(m->delta_key_heads * m->delta_dim), D = (double)m->width;
	const double value = (double)(m->delta_value_heads * m->delta_dim);
	const double heads = (double)m->delta_value_heads;

	if (!is_delta(m, layer))
		return (struct mixer){
		    {{m->full_every != 0 ? 2 * q : q, kv, kv}, D, 3}, single(D, q)};
	return (struct mixer){{{2 * key + value, value, heads, heads}, D, 4}, single(D, value)};
}

/* Causal scores: half of T * T. Forward two products, backward five (Dao 2023), of which
   flash_backward.cu does two a second time, and four where heads are wider than 128. */
static void
attention(struct walk *w, bool backward)
{
	const struct roof_model *m = w->m;
	const double T = w->T, A = w->A, q = (double)(m->heads * m->head_dim);
	const double kv = (double)(m->kv_heads * m->head_dim), H = (double)m->heads;
	const double flops = T * (T + 1) * q, rate = rate_of(w, A), again = m->head_dim > 128;

	if (!backward) {
		op_of(w, ROOF_ATTENTION, 2 * flops, A * T * (2 * q + 2 * kv) + 4 * T * H, rate, 1);
		return;
	}
	moves(w, ROOF_ATTENTION_BACKWARD, 2 * A * T * q + 4 * T * H);
	op_of(
	    w, ROOF_ATTENTION_BACKWARD, 2 * flops, A * T * (3 * q + 2 * kv) + 8 * T * H, rate, 1.5);
	op_of(w, ROOF_ATTENTION_BACKWARD, 3 * flops, A * T * (2 * q + 4 * kv) + 8 * T * H, rate,
	    again ? 2 : 4.0 / 3);
}

/* The chunked form (Yang et al. 2024), per value head and token: three products with the state and
   five within the chunk; backward about two and a half times that. */
static void
delta(struct walk *w, bool backward)
{
	const struct roof_model *m = w->m;
	const double d = (double)m->delta_dim, heads = (double)m->delta_value_heads;
	const double inner = 2 * d * (double)m->delta_key_heads + 2 * d * heads;
	const double flops = w->T * heads * (6 * d * d + 10 * DELTA_CHUNK * d);

	op_of(w, ROOF_DELTA, backward ? 2.5 * flops : flops,
	    w->T * inner * (backward ? 5 : 3) * w->A, rate_of(w, w->A), 1);
}

static void
mixer_forward(struct walk *w, size_t layer)
{
	const struct mixer x = mixer_of(w->m, layer);
	const double T = w->T, q = (double)(w->m->heads * w->m->head_dim);
	const double kv = (double)(w->m->kv_heads * w->m->head_dim);

	moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	linears(w, &x.first);
	if (is_delta(w->m, layer)) {
		delta(w, false);
	} else {
		moves(w, ROOF_ROPE, 2 * w->A * T * (q + kv));
		attention(w, false);
	}
	linears(w, &x.last);
	moves(w, ROOF_RESIDUAL, (8 + w->A) * T * w->D);
}

static void
mlp_forward(struct walk *w)
{
	const double T = w->T, F = (double)w->m->mlp_width;
	const struct group first = {{F, F}, w->D, 2}, last = single(w->D, F);

	moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	linears(w, &first);
	moves(w, ROOF_SWIGLU, 3 * w->A * T * F);
	linears(w, &last);
	moves(w, ROOF_RESIDUAL, (8 + w->A) * T * w->D);
}

/* In bfloat16 dx is written rounded too. */
static void
norm_backward(struct walk *w)
{
	moves(w, ROOF_NORM, (12 + w->A + (w->A == 4 ? 0 : w->A)) * w->T * w->D);
}

static void
mlp_backward(struct walk *w)
{
	const double T = w->T, F = (double)w->m->mlp_width;
	const struct group first = {{F, F}, w->D, 2}, last = single(w->D, F);

	moves(w, ROOF_SWIGLU, 3 * w->A * T * F);
	linears_backward(w, &last, false);
	moves(w, ROOF_SWIGLU, 5 * w->A * T * F);
	moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	linears_backward(w, &first, false);
	norm_backward(w);
}

static void
mixer_backward(struct walk *w, size_t layer)
{
	const struct mixer x = mixer_of(w->m, layer);
	const double T = w->T, q = (double)(w->m->heads * w->m->head_dim);
	const double kv = (double)(w->m->kv_heads * w->m->head_dim);

	linears_backward(w, &x.last, false);
	if (is_delta(w->m, layer)) {
		delta(w, true);
	} else {
		attention(w, true);
		moves(w, ROOF_ROPE, 2 * w->A * T * (q + kv));
	}
	moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	linears_backward(w, &x.first, layer == 0);
	if (layer != 0)
		norm_backward(w);
}

/* head_loss.cu: rows in chunks, each of which reads W twice; logits once to memory and back for the
   softmax, once more as an operand, by which dh grows in panels of the vocabulary. */
static void
head(struct walk *w)
{
	const double T = w->T, D = w->D, V = (double)w->m->vocabulary, A = w->A;
	double most = floor(HEAD_BYTES / (4 * V)), rows;

	most = most < HEAD_LEAST ? HEAD_LEAST : most > HEAD_ROWS ? HEAD_ROWS : most;
	rows = ceil(T / ceil(T / most));
	moves(w, ROOF_NORM, (12 + A) * T * D);
	for (double done = 0; done < T; done += rows) {
		const double n = T - done < rows ? T - done : rows;

		product(w, ROOF_HEAD, n, V, D, A, 4);
		moves(w, ROOF_HEAD, 4 * n * V);
		for (double v = 0; v < V; v += HEAD_PANEL) {
			const double columns = V - v < HEAD_PANEL ? V - v : HEAD_PANEL;

			moves(w, ROOF_HEAD, (4 + A) * n * columns);
			product(w, ROOF_HEAD, n, D, columns, A, v > 0 ? 8 : 4);
		}
	}
	narrow(w);
	moves(w, ROOF_NORM, (4 + 12 + A + 4 + 12) * T * D);
	narrow(w);
}

static double
adapter_floats(const struct walk *w)
{
	const double F = (double)w->m->mlp_width;
	double sum = 0;

	for (size_t layer = 0; layer < w->m->layers; layer++) {
		const struct mixer x = mixer_of(w->m, layer);

		sum += w->D + x.last.K + 3 * (F + w->D);
		sum += outputs_of(&x.first) + (double)x.first.count * w->D;
	}
	return sum * w->R;
}

void
roof_step_make(struct roof_step *s, const struct roof_model *m, const struct roof_options *o,
    const struct roof_rates *rates)
{
	struct walk w = {.s = s,
	    .m = m,
	    .rates = rates,
	    .T = (double)o->tokens,
	    .D = (double)m->width,
	    .R = (double)o->rank,
	    .A = o->f32 ? 4 : 2};
	double floats;

	memset(s, 0, sizeof(*s));
	floats = adapter_floats(&w);
	s->adapter = (size_t)floats;
	moves(&w, ROOF_RESIDUAL, (4 + w.A) * w.T * w.D);
	for (size_t layer = 0; layer < m->layers; layer++) {
		mixer_forward(&w, layer);
		mlp_forward(&w);
	}
	head(&w);
	for (size_t layer = m->layers; layer-- > 0;) {
		w.again = true;
		if (layer + 1 < o->recompute) {
			mixer_forward(&w, layer);
			mlp_forward(&w);
		}
		w.again = false;
		mlp_backward(&w);
		mixer_backward(&w, layer);
	}
	moves(&w, ROOF_UPDATE, 4 * floats + 4 * floats + 28 * floats);
}
