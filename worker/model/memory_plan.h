/*
 * How much memory a session takes, before anything of it is loaded: weights, adapter, gradients and
 * moments, the activations of one pass and what the ops need beside them. Every figure comes from
 * the code that allocates (model_memory, activations_cut) or is compared with it by a test.
 *
 * The policy, of both backends. Kept of each layer is what is dear to compute again; norms, SwiGLU,
 * dropout and attention's probabilities are recomputed. As many datums as stay within `bound`
 * go into one micro-batch. Where that does not fit into the memory there is, of each layer only
 * its input is kept and the rest is computed again in backward (activations.h), bit for bit the
 * same; so which of both it was shows in the time alone. Where not even that fits a datum of
 * maximum_datum_tokens, the session is refused.
 */
#ifndef WORKER_MODEL_MEMORY_PLAN_H
#define WORKER_MODEL_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/refusal.h"
#include "worker/files/config.h"
#include "worker/model/activations.h"
#include "worker/model/memory_scratch.h"

struct memory_request {
	const struct model_config *config;
	struct memory_backend backend;
	enum op_dtype compute;
	size_t rank, adapter; /* R, and floats of all its A and B */
	bool dropout;
	size_t tokens; /* of the longest datum, all of it supervised; 0 = not told, so 1 */
	size_t bound;  /* of a micro-batch's activations */
	size_t limit;  /* bytes there are; 0 = no limit */
};

/* Bytes, but for tokens and the flag. */
struct memory_plan {
	size_t weights, adapter, gradients, moments;
	size_t activations, scratch; /* of the longest datum alone */
	size_t total;		     /* all of the above */
	size_t pass;		     /* what is left for activations and scratch; SIZE_MAX */
	size_t micro_batch;	     /* tokens of the largest that keeps every layer */
	bool recompute;		     /* the longest datum keeps but each layer's input */
};

/* Plans. 0, or -1 with *r: 507 with need, what is free, and the largest maximum_datum_tokens. */
int memory_plan_make(struct memory_plan *p, const struct memory_request *q, struct refusal *r);

/* Activations and scratch of one pass together; a->layers as for activations_cut. SIZE_MAX: more
   than can be. */
size_t memory_pass(struct activations *a, const struct memory_backend *backend,
    const struct model_config *c, const struct activations_shape *shape);

#endif
