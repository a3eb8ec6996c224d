#include "tests/bench/roofline_linear.h"

#include <math.h>

enum { PARTS = 3 }; /* lora.cu: bfloat16 parts of a float32 */

struct roof_group
roof_single(double N, double K)
{
	return (struct roof_group){{N}, K, 1};
}

double
roof_outputs(const struct roof_group *g)
{
	double sum = 0;

	for (size_t i = 0; i < g->count; i++)
		sum += g->outputs[i];
	return sum;
}

/* Elements of a rank in bfloat16 parts. */
static double
parts_of(const struct roof_walk *w)
{
	return 8 * ceil(PARTS * w->R / 8);
}

/* lora.cu: the pairs of a group where activations are bfloat16. */
static void
lora(struct roof_walk *w, const struct roof_group *g)
{
	const double T = w->T, R = w->R, n = (double)g->count, N = roof_outputs(g), P = parts_of(w);
	const double all = n * P;

	roof_moves(w, ROOF_LORA, (4 * R + 2 * P) * (n * g->K + N)); /* A and B in parts */
	roof_op(w, ROOF_LORA, 2 * T * n * R * g->K, 2 * (T + all) * g->K + 4 * T * all,
	    w->rates->flops, P / R);
	roof_moves(w, ROOF_LORA, (4 * P + 4 * R + 2 * P) * n * T); /* xa, and in parts */
	for (size_t i = 0; i < g->count; i++)
		roof_op(w, ROOF_LORA, 2 * T * R * g->outputs[i],
		    2 * (T + g->outputs[i]) * P + 2 * T * g->outputs[i], w->rates->flops, P / R);
}

static void
lora_backward(struct roof_walk *w, const struct roof_group *g, bool lowest)
{
	const double T = w->T, R = w->R, n = (double)g->count, N = roof_outputs(g), P = parts_of(w);
	const double all = n * P, rate = w->rates->flops, K = g->K;

	roof_moves(
	    w, ROOF_LORA_BACKWARD, (4 * R + 2 * P) * (n * K + N + n * T)); /* A, B, xa in parts */
	for (size_t i = 0; i < g->count; i++) {
		const double m = g->outputs[i];

		roof_op(w, ROOF_LORA_BACKWARD, 2 * T * R * m, 2 * T * m + 2 * P * m + 4 * T * P,
		    rate, P / R);
		roof_op(w, ROOF_LORA_BACKWARD, 2 * T * R * m, 2 * T * m + 2 * T * P + 4 * P * m,
		    rate, P / R);
	}
	roof_moves(w, ROOF_LORA_BACKWARD, (4 * P + 2 * 2 * P) * n * T); /* dxa in parts, twice */
	if (!lowest)
		roof_op(w, ROOF_LORA_BACKWARD, 2 * T * n * R * K, 2 * (T + K) * all + 2 * T * K,
		    rate, P / R);
	roof_op(
	    w, ROOF_LORA_BACKWARD, 2 * T * n * R * K, 2 * T * (K + all) + 4 * K * all, rate, P / R);
	roof_moves(
	    w, ROOF_LORA_BACKWARD, (4 * P + 8 * R) * (n * K + N)); /* added to the gradients */
}

/* The same in float32: four plain products for each pair, two forward. */
static void
lora_f32(struct roof_walk *w, const struct roof_group *g, bool backward, bool lowest)
{
	const double T = w->T, R = w->R;
	const enum roof_kind kind = backward ? ROOF_LORA_BACKWARD : ROOF_LORA;

	for (size_t i = 0; i < g->count; i++) {
		const double N = g->outputs[i];

		roof_product(w, kind, T, R, backward ? N : g->K, 4, 4);
		if (!backward || !lowest)
			roof_product(
			    w, kind, T, backward ? g->K : N, R, 4, backward && i > 0 ? 8 : 4);
		if (!backward)
			continue;
		roof_product(w, kind, N, R, T, 4, 8);
		roof_product(w, kind, R, g->K, T, 4, 8);
	}
}

void
roof_linears(struct roof_walk *w, const struct roof_group *g)
{
	for (size_t i = 0; i < g->count; i++)
		roof_product(w, ROOF_LINEAR, w->T, g->outputs[i], g->K, w->A, 2 * w->A);
	roof_lora(w, g);
}

void
roof_lora(struct roof_walk *w, const struct roof_group *g)
{
	if (w->A == 4)
		lora_f32(w, g, false, false);
	else
		lora(w, g);
}

void
roof_linears_backward(struct roof_walk *w, const struct roof_group *g, bool lowest)
{
	for (size_t i = 0; i < g->count && !lowest; i++)
		roof_product(w, ROOF_LINEAR_BACKWARD, w->T, g->K, g->outputs[i], w->A, 2 * w->A);
	if (w->A == 4)
		lora_f32(w, g, true, lowest);
	else
		lora_backward(w, g, lowest);
}
