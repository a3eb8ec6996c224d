#include "tests/bench/roofline_ops.h"

#include <math.h>
#include <string.h>

#include "tests/bench/roofline_linear.h"

enum {
	DELTA_CHUNK = 64,
	/* The sizes of head_loss.cu. */
	HEAD_ROWS = 1024,
	HEAD_LEAST = 512,
	HEAD_BYTES = 256 << 20,
	HEAD_PANEL = 16384,
	HEAD_PANEL_F32 = 1024,
};

/* The float32 gradient of the residual stream, rounded. */
static void
narrow(struct roof_walk *w)
{
	if (w->A != 4)
		roof_moves(w, ROOF_ROUND, (4 + w->A) * w->T * w->D);
}

/* The mixer's linear layers: those that read the norm, and the last one. */
struct mixer {
	struct roof_group first, last;
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
		    {{m->full_every != 0 ? 2 * q : q, kv, kv}, D, 3}, roof_single(D, q)};
	return (struct mixer){
	    {{2 * key + value, value, heads, heads}, D, 4}, roof_single(D, value)};
}

/* The kernels of flash.cu and flash_backward.cu: cycles of shared memory (128 bytes each) for each
   mma.m16n8k16, with heads of up to so many elements. Four for each LDSM and LDGSTS of a warp,
   through its HMMA: tests/cuda-emu/loops.txt, those of sm_90 where an architecture has its own. */
static const struct flash_cycles {
	size_t head_dim;
	double forward, q, kv;
} flash_cycles[] = {
    {64, 272.0 / 192, 288.0 / 192, 224.0 / 128},
    {128, 304.0 / 192, 352.0 / 192, 640.0 / 256},
    {256, 352.0 / 128, 576.0 / 192, 576.0 / 192},
};

/* Flops per second of one of them: tensor cores, unless shared memory is slower. */
static double
flash_rate(const struct roof_walk *w, double cycles)
{
	const double shared = w->rates->shared / cycles;

	if (w->A == 4)
		return w->rates->single;
	return shared > 0 && shared < w->rates->attention ? shared : w->rates->attention;
}

/* Causal scores: half of T * T. Forward two products, backward five (Dao 2023), of which
   flash_backward.cu does two a second time, and four where heads are wider than 128. */
static void
attention(struct roof_walk *w, bool backward)
{
	const struct roof_model *m = w->m;
	const double T = w->T, A = w->A, q = (double)(m->heads * m->head_dim);
	const double kv = (double)(m->kv_heads * m->head_dim), H = (double)m->heads;
	const double flops = T * (T + 1) * q, again = m->head_dim > 128;
	const struct flash_cycles *cycles = flash_cycles;

	while (cycles->head_dim < m->head_dim)
		cycles++;
	if (!backward) {
		roof_op(w, ROOF_ATTENTION, 2 * flops, A * T * (2 * q + 2 * kv) + 4 * T * H,
		    flash_rate(w, cycles->forward), 1);
		return;
	}
	roof_moves(w, ROOF_ATTENTION_BACKWARD, 2 * A * T * q + 12 * T * H);
	roof_op(w, ROOF_ATTENTION_BACKWARD, 2 * flops, A * T * (3 * q + 2 * kv) + 8 * T * H,
	    flash_rate(w, cycles->q), 1.5);
	roof_op(w, ROOF_ATTENTION_BACKWARD, 3 * flops, A * T * (2 * q + 4 * kv) + 8 * T * H,
	    flash_rate(w, cycles->kv), again ? 2 : 4.0 / 3);
}

/* The chunked form (Yang et al. 2024), per value head and token: three products with the state and
   five within the chunk; backward about two and a half times that. */
static void
delta(struct roof_walk *w, bool backward)
{
	const struct roof_model *m = w->m;
	const double d = (double)m->delta_dim, heads = (double)m->delta_value_heads;
	const double inner = 2 * d * (double)m->delta_key_heads + 2 * d * heads;
	const double flops = w->T * heads * (6 * d * d + 10 * DELTA_CHUNK * d);

	roof_op(w, ROOF_DELTA, backward ? 2.5 * flops : flops,
	    w->T * inner * (backward ? 5 : 3) * w->A, roof_rate(w, w->A), 1);
}

/* Of q, and of k. */
static void
rope(struct roof_walk *w)
{
	const double dim = (double)w->m->head_dim;

	roof_moves(w, ROOF_ROPE, 2 * w->A * w->T * (double)w->m->heads * dim);
	roof_moves(w, ROOF_ROPE, 2 * w->A * w->T * (double)w->m->kv_heads * dim);
}

/* What a linear layer gave is added to the residual stream; the norm that comes next is written in
   the same pass. */
static void
residual(struct roof_walk *w, bool norm)
{
	roof_moves(w, ROOF_RESIDUAL, (8 + w->A + (norm ? w->A : 0)) * w->T * w->D);
}

static void
mixer_forward(struct roof_walk *w, size_t layer)
{
	const struct mixer x = mixer_of(w->m, layer);

	if (layer == 0 || w->again)
		roof_moves(w, ROOF_NORM, (4 + w->A) * w->T * w->D);
	roof_linears(w, &x.first);
	if (is_delta(w->m, layer)) {
		delta(w, false);
	} else {
		rope(w);
		attention(w, false);
	}
	roof_linears(w, &x.last);
	residual(w, true);
}

static void
mlp_forward(struct roof_walk *w, size_t layer)
{
	const double T = w->T, F = (double)w->m->mlp_width;
	const struct roof_group first = {{F, F}, w->D, 2}, last = roof_single(w->D, F);

	roof_linears(w, &first);
	roof_moves(w, ROOF_SWIGLU, 3 * w->A * T * F);
	if (w->again) { /* what the layer gave is the next one's x */
		roof_lora(w, &last);
		return;
	}
	roof_linears(w, &last);
	residual(w, layer + 1 < w->m->layers);
}

/* In bfloat16 dx is written rounded too. */
static void
norm_backward(struct roof_walk *w)
{
	roof_moves(w, ROOF_NORM, (12 + w->A + (w->A == 4 ? 0 : w->A)) * w->T * w->D);
}

/* `fresh`: right after the layer's forward pass, which left SwiGLU's output and the norm. */
static void
mlp_backward(struct roof_walk *w, bool fresh)
{
	const double T = w->T, F = (double)w->m->mlp_width;
	const struct roof_group first = {{F, F}, w->D, 2}, last = roof_single(w->D, F);

	if (!fresh)
		roof_moves(w, ROOF_SWIGLU, 3 * w->A * T * F);
	roof_linears_backward(w, &last, false);
	roof_moves(w, ROOF_SWIGLU, 5 * w->A * T * F);
	if (!fresh)
		roof_moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	roof_linears_backward(w, &first, false);
	norm_backward(w);
}

static void
mixer_backward(struct roof_walk *w, size_t layer)
{
	const struct mixer x = mixer_of(w->m, layer);
	const double T = w->T;

	roof_linears_backward(w, &x.last, false);
	if (is_delta(w->m, layer)) {
		delta(w, true);
	} else {
		attention(w, true);
		rope(w);
	}
	roof_moves(w, ROOF_NORM, (4 + w->A) * T * w->D);
	roof_linears_backward(w, &x.first, layer == 0);
	if (layer != 0)
		norm_backward(w);
}

/* head_loss.cu: rows in chunks, each of which reads W twice; logits once to memory and back for the
   softmax, once more as an operand, by which dh grows in panels of the vocabulary. */
static void
head(struct roof_walk *w)
{
	const double T = w->T, D = w->D, V = (double)w->m->vocabulary, A = w->A;
	const double panel = A == 4 ? HEAD_PANEL_F32 : HEAD_PANEL;
	double most = floor(HEAD_BYTES / (4 * V)), rows;

	most = most < HEAD_LEAST ? HEAD_LEAST : most > HEAD_ROWS ? HEAD_ROWS : most;
	rows = ceil(T / ceil(T / most));
	roof_moves(w, ROOF_NORM, 8 * T * D); /* the supervised rows */
	roof_moves(w, ROOF_NORM, (4 + A) * T * D);
	for (double done = 0; done < T; done += rows) {
		const double n = T - done < rows ? T - done : rows;

		roof_product(w, ROOF_HEAD, n, V, D, A, 4);
		roof_moves(w, ROOF_HEAD, 4 * n * V);
		for (double v = 0; v < V; v += panel) {
			const double columns = V - v < panel ? V - v : panel;

			roof_moves(w, ROOF_HEAD, (4 + A) * n * columns);
			roof_product(w, ROOF_HEAD, n, D, columns, A, v > 0 ? 8 : 4);
		}
	}
	narrow(w);
	roof_moves(w, ROOF_NORM, 4 * T * D); /* zeros that the norm's gradient is added to */
	roof_moves(w, ROOF_NORM, (12 + A) * T * D);
	roof_moves(w, ROOF_NORM, 4 * T * D); /* and in which the rows are put back */
	roof_moves(w, ROOF_NORM, 12 * T * D);
	narrow(w);
}

static double
adapter_floats(const struct roof_walk *w)
{
	const double F = (double)w->m->mlp_width;
	double sum = 0;

	for (size_t layer = 0; layer < w->m->layers; layer++) {
		const struct mixer x = mixer_of(w->m, layer);

		sum += w->D + x.last.K + 3 * (F + w->D);
		sum += roof_outputs(&x.first) + (double)x.first.count * w->D;
	}
	return sum * w->R;
}

void
roof_step_make(struct roof_step *s, const struct roof_model *m, const struct roof_options *o,
    const struct roof_rates *rates)
{
	struct roof_walk w = {.s = s,
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
	roof_moves(&w, ROOF_RESIDUAL, (4 + w.A) * w.T * w.D);
	for (size_t layer = 0; layer < m->layers; layer++) {
		mixer_forward(&w, layer);
		mlp_forward(&w, layer);
	}
	head(&w);
	for (size_t layer = m->layers; layer-- > 0;) {
		const bool again = layer + 1 < o->recompute;

		w.again = true;
		if (again) {
			mixer_forward(&w, layer);
			mlp_forward(&w, layer);
		}
		w.again = false;
		mlp_backward(&w, again || layer + 1 == m->layers);
		mixer_backward(&w, layer);
	}
	roof_moves(&w, ROOF_UPDATE, 4 * floats); /* zeros; the norm, twice; AdamW */
	roof_moves(&w, ROOF_UPDATE, 4 * floats);
	roof_moves(&w, ROOF_UPDATE, 0);
	roof_moves(&w, ROOF_UPDATE, 28 * floats);
}
