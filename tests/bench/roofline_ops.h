/*
 * The ops of one LoRA training step, each with its flops and the bytes it has to move: the lists of
 * worker/model/forward.c and backward.c, the head's loss, and the update, as numbers. One sequence
 * of T tokens, all of them supervised, every linear layer adapted. bfloat16 where the activation
 * type stands, float32 where the ops say float32. Each is as CUDA's ops launch it, with the flops
 * that a kernel does more than the maths asks for; what a product reads twice because it does not
 * fit on the chip is not counted, and what a kernel finds in the cache, because the one before it
 * has just written it, is: small models are faster than this there.
 */
#ifndef TESTS_BENCH_ROOFLINE_OPS_H
#define TESTS_BENCH_ROOFLINE_OPS_H

#include "tests/bench/roofline_walk.h"

struct roof_options {
	size_t tokens, rank;
	size_t recompute; /* of so many layers, but the last of them, the forward pass runs twice */
	bool f32;	  /* activations and products in float32, as the CPU's reference */
};

/* Adds up the step. */
void roof_step_make(struct roof_step *s, const struct roof_model *m, const struct roof_options *o,
    const struct roof_rates *rates);

#endif
