/*
 * What a card can do: as its maker publishes it, and as others have measured it; and what it costs
 * to start a kernel. Each figure with its source.
 */
#ifndef TESTS_BENCH_ROOFLINE_CARDS_H
#define TESTS_BENCH_ROOFLINE_CARDS_H

#include "tests/bench/roofline_walk.h"

struct roof_card {
	const char *name;
	double teraflops; /* bfloat16 tensor cores, dense, float32 accumulation */
	double single;	  /* teraflops of float32, no tensor cores */
	double gigabytes; /* per second */
	double memory;	  /* GB */
	size_t processors;
	/* Shares of teraflops that are reached: by large products of cuBLAS, by our flash
	   attention, by what PyTorch calls for it. */
	double product, attention, sdpa;
	double cycles; /* of a multiprocessor, between two mma.m16n8k16 at the peak */
};

/* How kernels get to the device: ROOF_STREAM one after another by C, ROOF_GRAPH all of a step as
   one CUDA graph, ROOF_EAGER by PyTorch, an op at a time. */
enum roof_launching { ROOF_STREAM, ROOF_GRAPH, ROOF_EAGER };

/* By index, or NULL behind the last; by name, or NULL. */
const struct roof_card *roof_card_at(size_t index);
const struct roof_card *roof_card_find(const char *name);
/* The card whose name is a word of what the driver calls it ("NVIDIA H100 80GB HBM3"), or NULL: one
   that is not listed, or a form of it with other peaks (PCIe, NVL). */
const struct roof_card *roof_card_of(const char *device);
/* The published peaks; what of them is to be expected; and what of them by PyTorch. */
void roof_rates_at_best(struct roof_rates *rates, const struct roof_card *card);
void roof_rates_expected(struct roof_rates *rates, const struct roof_card *card);
void roof_rates_peer(struct roof_rates *rates, const struct roof_card *card);
/* Seconds of a step whose launches are `total`: of the device, with the time between two kernels,
   or of the host, whichever is longer. */
double roof_seconds(const struct roof_sum *total, enum roof_launching how);

#endif
