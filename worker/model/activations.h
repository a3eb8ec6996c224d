/*
 * The memory of a pass: one table of sizes, one allocation, pointers cut from it. What backward
 * needs of each layer is kept; what it can cheaply compute again (norms, SwiGLU, dropout) is not.
 * Kept per token and layer: 2D float32 (residual stream before attention and before the MLP),
 * 2HE + 2GE + 2F of the activation type, H float32 and the adapter's R float32 for each adapted
 * linear layer. SmolLM2-135M: 23 KB in float32, 14 KB in bfloat16, times 30 layers.
 *
 * Where that is too much (memory_plan.h), of some layers, from the first on, only what enters them
 * is kept, D float32, and backward runs their forward pass again: the same ops on the same values,
 * so the same bits, for a third more work on those layers.
 *
 * "act" is the context's activation type; T, M, D, H, G, E, F, V, L, R as in pass.h.
 */
#ifndef WORKER_MODEL_ACTIVATIONS_H
#define WORKER_MODEL_ACTIVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"
#include "worker/files/config.h"
#include "worker/model/model.h"

/* What a pass needs memory for. */
struct activations_shape {
	size_t tokens; /* T */
	size_t rows;   /* M: rows that go through the head's loss */
	size_t logits; /* rows of logits (., V), 0 = none */
	size_t cache;  /* tokens of the key/value cache for generation, 0 = none */
	size_t rank;   /* R of the adapter, 0 = none */
	bool backward; /* every layer is kept; else all layers share one layer's memory */
	size_t
	    recompute; /* with backward: of the first so many layers only x is kept; 0 or 1: none */
	bool dropout;  /* what enters A differs from what enters W */
	enum op_dtype act; /* op_compute of the context */
};

struct layer_activations {
	float *x;		 /* (T, D) what enters the layer */
	float *middle;		 /* (T, D) the same after attention */
	void *q;		 /* (T, H, E) act, turned */
	void *k, *v;		 /* (T, G, E) act; k turned. With a cache: (cache, G, E) */
	void *attended;		 /* (T, H, E) act */
	float *lse;		 /* (T, H) */
	void *gate, *up;	 /* (T, F) act */
	float *xa[LINEAR_COUNT]; /* (T, R) */
};

struct activations {
	struct activations_shape shape;
	struct layer_activations *layers; /* (L+1), host; of the last only x, the stack's output */
	/* the batch */
	int32_t *ids, *position; /* (T) */
	int32_t *rows, *targets; /* (M) */
	float *coefficient;	 /* (M) */
	/* used within a layer, forward and backward */
	void *normed;	/* (T, D) act */
	void *swiglu;	/* (T, F) act */
	void *dropped;	/* (T, max(D, F, HE)) act */
	void *branch;	/* (T, D) act: what is added to the residual stream; bfloat16 only, as
			   float32 goes where the sum does */
	float *rstd;	/* (T) */
	void *wide;	/* (T, max(F, HE+2GE)) act: gradients of gate, or of q, k and v */
	void *wide2;	/* (T, max(F, HE)) act: gradients of up, or of what attention gave */
	void *ddropped; /* (T, max(D, F, HE)) act */
	void *dnormed;	/* (T, D) act: gradient of a norm's output; in bfloat16 dx, else */
	float *dx;	/* (T, D) gradient of the residual stream */
	/* the head */
	float *hidden;		/* (max(M, logits), D) rows of the stack's output */
	void *head_in;		/* (max(M, logits), D) act */
	float *head_rstd;	/* (max(M, logits)) */
	double *logp;		/* (M) */
	float *dhead, *dhidden; /* (M, D) */
	float *logits;		/* (logits, V) */
};

/* Bytes of an element of the activation type. */
static inline size_t
activations_size(const struct activations_shape *s)
{
	return s->act == OP_F32 ? sizeof(float) : sizeof(uint16_t);
}

/*
 * Cuts the pointers out of memory, each a multiple of 256 bytes from its start, or only adds up
 * where memory is NULL. a->layers has to have layer_count + 1 elements. Returns the bytes, SIZE_MAX
 * if they do not fit a size_t.
 */
size_t activations_cut(struct activations *a, const struct model_config *c,
    const struct activations_shape *shape, void *memory);

#endif
