/*
 * How much memory a session takes, before anything of it is loaded: weights, adapter, gradients and
 * moments, the activations of one pass and what the ops need beside them. Every figure comes from
 * the code that allocates (model_memory, activations_cut) or is compared with it by a test.
 *
 * Kept of each layer is what is dear to compute again; norms, SwiGLU, dropout and attention's
 * probabilities are recomputed. Where a pass does not fit so, of as many layers as have to, from
 * the first on, only the input is kept and the rest is computed again in backward (activations.h),
 * bit for bit the same; so how many it were shows in the time alone. Where not even that fits a
 * datum of maximum_datum_tokens, the session is refused. What all of this leaves of a GPU is for
 * CUDA graphs (kernels/repeat.h), up to MEMORY_GRAPHS: no bit depends on them, and they give way.
 *
 * A request is split into micro-batches of at most `micro_batch` tokens, or one datum. The split is
 * in the gradient's bits: sums of other parts round otherwise. So this number is chosen once, when
 * a session opens, and kept with it: a worker that comes back where other memory is free recomputes
 * more or fewer layers, and is refused before it splits otherwise. The choice: on a CPU what a
 * fixed bound keeps (MEMORY_CPU_BOUND), so that it depends on the machine's memory only where it
 * has to. On a GPU as many tokens as can be kept whole in 7/8 of what is free, up to
 * MEMORY_ENOUGH_TOKENS; where these are fewer than MEMORY_FEW_TOKENS, recomputing layers costs less
 * than reading the weights for so few rows, so it is that many tokens, or what fits.
 */
#ifndef WORKER_MODEL_MEMORY_PLAN_H
#define WORKER_MODEL_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/refusal.h"
#include "worker/files/config.h"
#include "worker/model/activations.h"
#include "worker/model/memory_scratch.h"

enum {
	/* Bytes of a micro-batch's activations on a CPU: some 1,000 tokens of a model like
	   SmolLM2-135M in float32. */
	MEMORY_CPU_BOUND = 768 * 1024 * 1024,
	/* Rows that keep a GPU busy: at 1,024 a product of bfloat16 is bound by its arithmetic on
	   every card (peak / bandwidth is 200 to 300 flops a byte), more hide the launches. */
	MEMORY_FEW_TOKENS = 2048,
	MEMORY_ENOUGH_TOKENS = 16384,
	/* Bytes that CUDA graphs take at most. A driver needs for each launch in one up to 64 KiB,
	   newer ones far less: for SmolLM2-135M's 2,600, 170 MB. */
	MEMORY_GRAPHS = 512 << 20,
};

struct memory_request {
	const struct model_config *config;
	struct memory_backend backend;
	enum op_dtype compute;
	size_t rank, adapter; /* R, and floats of all its A and B */
	bool dropout;
	size_t tokens;	    /* of the longest datum, all of it supervised; 0 = not told, so 1 */
	size_t micro_batch; /* tokens that the session splits by already; 0 = choose */
	size_t limit;	    /* bytes there are; 0 = no limit */
	size_t margin;	    /* bytes that are free beside those and stay so: for the driver */
};

/* Bytes, but for tokens and layers. */
struct memory_plan {
	size_t weights, adapter, gradients, moments;
	/* Of the longest datum alone; on a GPU of that or the largest micro-batch, for there they
	   are allocated when the session opens. */
	size_t activations, scratch;
	size_t total;	    /* all of the above */
	size_t pass;	    /* what is left for activations and scratch; SIZE_MAX */
	size_t micro_batch; /* tokens */
	size_t recompute;   /* layers that the longest datum recomputes */
	size_t graphs;	    /* bytes beside total that CUDA graphs may take; 0 on a CPU */
};

/* Plans. 0, or -1 with *r: 507 with need, what is free, and the largest maximum_datum_tokens that
   would fit. */
int memory_plan_make(struct memory_plan *p, const struct memory_request *q, struct refusal *r);

/* Sets shape->recompute to the fewest layers that let activations and scratch stay within `bytes`,
   all of them where that is not possible. held: scratch that is there in any case. a->layers as for
   activations_cut. Returns both together; SIZE_MAX: more than can be. */
size_t memory_fit(struct activations *a, const struct memory_backend *backend,
    const struct model_config *c, struct activations_shape *shape, size_t held, size_t bytes);

#endif
