/*
 * The launches of linear layers with their adapters: products with W by the library, and the low
 * ranks as lora.cu does them.
 */
#ifndef TESTS_BENCH_ROOFLINE_LINEAR_H
#define TESTS_BENCH_ROOFLINE_LINEAR_H

#include "tests/bench/roofline_walk.h"

/* Linear layers that read the same x (T, K): N of each. */
struct roof_group {
	double outputs[4], K;
	size_t count;
};

/* One linear layer, N outputs, K inputs. */
struct roof_group roof_single(double N, double K);
/* Outputs of all. */
double roof_outputs(const struct roof_group *g);
/* forward.c: linears. The adapter's share is written first, what W gives is added to it. */
void roof_linears(struct roof_walk *w, const struct roof_group *g);
/* The adapter's share of that. */
void roof_lora(struct roof_walk *w, const struct roof_group *g);
/* backward.c: linears_backward; without W where nothing below needs the gradient. */
void roof_linears_backward(struct roof_walk *w, const struct roof_group *g, bool lowest);

#endif
