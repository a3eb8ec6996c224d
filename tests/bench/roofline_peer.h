/*
 * The peer's step on paper: the ops that PyTorch + Transformers + PEFT dispatch, as peer_ops.py
 * recorded them, on the same card and by the same rules as ours. Each op counts as one kernel that
 * reads its operands and writes its results once, which favours the peer: some are several.
 */
#ifndef TESTS_BENCH_ROOFLINE_PEER_H
#define TESTS_BENCH_ROOFLINE_PEER_H

#include <stdio.h>

#include "tests/bench/roofline_walk.h"

struct roof_peer {
	struct roof_sum total;
	struct roof_sum products, attention, attention_backward, other;
	double memory; /* bytes of all tensors at the peak */
};

/* Adds up the step of `model` with `tokens` of the table in f (peer_ops.py tells its form), with
   gradient checkpointing where `recomputed`. Returns 1, 0 where the table has no such step, -1
   where a line is not of its form. */
int roof_peer_read(struct roof_peer *p, FILE *f, const char *model, size_t tokens, bool recomputed,
    const struct roof_rates *rates);

#endif
