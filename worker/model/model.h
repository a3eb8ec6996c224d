/*
 * The frozen base model on the device: its weights as the ops take them, read from the model's
 * files into one allocation. The configuration says what is computed (config.h); this says where
 * the numbers lie. Nothing here changes after model_load.
 *
 * D model width, H query heads, G key/value heads, E head width, F feed-forward width, V
 * vocabulary, L layers.
 */
#ifndef WORKER_MODEL_MODEL_H
#define WORKER_MODEL_MODEL_H

#include <stddef.h>

#include "kernels/ops.h"
#include "worker/files/config.h"
#include "worker/files/files.h"
#include "ipc/refusal.h"

/* The linear layers of a decoder layer: X(NAME, path below the layer), in the order of the pass. */
#define MODEL_LINEAR_LIST(X)                                                                       \
	X(Q, "self_attn.q_proj")                                                                   \
	X(K, "self_attn.k_proj")                                                                   \
	X(V, "self_attn.v_proj")                                                                   \
	X(O, "self_attn.o_proj")                                                                   \
	X(GATE, "mlp.gate_proj")                                                                   \
	X(UP, "mlp.up_proj")                                                                       \
	X(DOWN, "mlp.down_proj")

#define MODEL_LINEAR_ENUM(name, path) LINEAR_##name,
enum model_linear { MODEL_LINEAR_LIST(MODEL_LINEAR_ENUM) LINEAR_COUNT };
#undef MODEL_LINEAR_ENUM

/* y = W x + bias */
struct model_weights {
	struct op_matrix w; /* (N, K) */
	const float *bias;  /* (N), or NULL */
};

struct model_block {
	const float *attention_norm; /* (D) */
	const float *mlp_norm;	     /* (D) */
	struct model_weights linear[LINEAR_COUNT];
};

struct model {
	struct op_context *ops;
	const struct model_config *config; /* a view: the model's files own it */
	struct op_matrix embedding;	   /* (V, D) */
	struct op_matrix head;		   /* (V, D); the embedding itself where the head is tied */
	const float *norm;		   /* (D), before the head */
	const float *frequency;		   /* (rope.half) */
	struct model_block *blocks;	   /* (L) */
	size_t parameters;		   /* elements of all weights */
	void *memory;			   /* device memory that all of the above lies in */
};

/* Path of a linear layer below its decoder layer: "self_attn.q_proj". */
const char *model_linear_path(enum model_linear which);
/* Outputs N and inputs K of that layer. */
void model_linear_shape(
    const struct model_config *c, enum model_linear which, size_t *outputs, size_t *inputs);
/* Writes Transformers' name of a layer's module, "model.layers.3.mlp.up_proj"; snprintf's result.
 */
int model_module_name(
    char *out, size_t size, const struct model_config *c, size_t layer, const char *path);

/*
 * Reads all weights to the device with all threads: matrices in the context's compute type, norms
 * and biases float32. files must outlive the model. 0, or -1 with *r: 422 for what is wrong with
 * the files, 507 where memory does not suffice. On failure *out is NULL.
 */
int model_load(
    struct model **out, struct op_context *ops, const struct model_files *files, struct refusal *r);
/* Bytes that model_load allocates on the device; SIZE_MAX: more than can be. */
size_t model_memory(const struct model_config *c, enum op_dtype compute);
/* NULL and half-made models are allowed. */
void model_free(struct model *m);

/* Turns the failure of an op into a refusal: 507 memory, 503 a device fault (the process should end
   after its last words), 422 what the backend cannot do. Returns -1. */
int model_refuse_op(struct refusal *r, const struct op_context *ops, enum op_status status);

/* For flat lists of ops: leaves the function with the status of the first that fails. */
#define OP_TRY(call)                                                                               \
	do {                                                                                       \
		enum op_status op_try_status = (call);                                             \
		if (op_try_status != OP_OK)                                                        \
			return op_try_status;                                                      \
	} while (0)

#endif
