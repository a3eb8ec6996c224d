/*
 * What one pass over packed sequences works on: the batch on the device, the adapter as pairs on
 * linear layers, and the memory for what is computed on the way (activations.h). forward.c fills
 * the activations, backward.c reads them and adds to the adapter's gradients.
 *
 * T tokens of all packed sequences, M supervised rows, R rank; the rest as in model.h.
 */
#ifndef WORKER_MODEL_PASS_H
#define WORKER_MODEL_PASS_H

#include <stdint.h>

#include "kernels/ops.h"
#include "worker/model/activations.h"
#include "worker/model/model.h"

/* The packed sequences of one micro-batch. Device memory unless said otherwise. */
struct pass_batch {
	const int32_t *ids;	   /* (T) */
	const int32_t *rows;	   /* (M) rows whose next token is supervised, ascending */
	const int32_t *targets;	   /* (M) that next token */
	const float *coefficient;  /* (M) weight of each row's -log p in the loss */
	struct op_packing packing; /* its start is host memory */
	size_t row_count;	   /* M */
};

/* The adapter's pair on one linear layer, and where its gradients are added. */
struct pass_lora {
	struct op_lora lora; /* rank 0: this layer is not adapted */
	float *da;	     /* (R, K) */
	float *db;	     /* (N, R) */
};

struct pass {
	const struct model *model;
	const struct pass_lora *lora; /* (L, LINEAR_COUNT), or NULL: adapter off */
	const struct pass_batch *batch;
	const struct activations *acts;
	/* Dropout on what enters A; 0 = none. The mask of an element depends on the seed, the
	   linear layer and the token's place in the whole request, so no split into micro-batches
	   changes it. */
	float dropout;
	uint64_t dropout_seed;
	uint64_t first_token; /* place of row 0 in the request */
	/* Generation: how many tokens of the one sequence lie in the cache already. */
	size_t past;
};

/* The pair on a linear layer, or NULL if there is none or the adapter is off. */
static inline const struct pass_lora *
pass_lora_at(const struct pass *p, size_t layer, enum model_linear which)
{
	const struct pass_lora *l;

	if (p->lora == NULL)
		return NULL;
	l = &p->lora[layer * LINEAR_COUNT + which];
	return l->lora.rank == 0 ? NULL : l;
}

/* Seed of the dropout mask on a linear layer: one output of splitmix64 (Steele, Lea and Flood 2014)
   over the pass's seed and the layer's number. */
static inline uint64_t
pass_dropout_seed(const struct pass *p, size_t layer, enum model_linear which)
{
	uint64_t z = p->dropout_seed + (layer * LINEAR_COUNT + which + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
