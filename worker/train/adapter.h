/*
 * The LoRA adapter (Hu et al. 2021): which linear layers have a pair A, B, under which names PEFT
 * knows them, and where each lies in the flat float32 buffers that hold all parameters, all
 * gradients and both moments in the same order. The values live elsewhere (trainer.h); this is
 * their table of contents, fixed when a session opens.
 */
#ifndef WORKER_TRAIN_ADAPTER_H
#define WORKER_TRAIN_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/files/config.h"
#include "worker/model/model.h"
#include "ipc/refusal.h"

struct adapter_tensor {
	char *key;	   /* "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
	size_t rows, cols; /* A (R, K), B (N, R) */
	size_t offset;	   /* in floats, of element (0, 0); row-major, no gaps */
};

/* Of a linear layer: indices of its A and B in tensors, or ADAPTER_NONE. */
enum { ADAPTER_NONE = -1 };
struct adapter_pair {
	int32_t a, b;
};

struct adapter {
	struct adapter_tensor
	    *tensors; /* layers in order; q, k, v, o, gate, up, down; A before B */
	size_t count;
	size_t size; /* floats of all tensors */
	size_t rank;
	double alpha;		    /* the pair's output is multiplied by alpha / rank */
	struct adapter_pair *pairs; /* (L, LINEAR_COUNT) */
	size_t modules;		    /* adapted linear layers */
	/* Last names of the adapted layers, each once, sorted as PEFT's target_modules:
	   "down_proj", "gate_proj", ...; views. */
	const char *targets[LINEAR_COUNT];
	size_t target_count;
};

/*
 * Lays out an adapter. targets: "all-linear" (every linear layer but the output head), or names
 * joined by commas; a name takes every module whose path ends in it after a dot ("q_proj",
 * "self_attn.q_proj", "layers.0.mlp.up_proj"). A name that matches nothing, the output head and the
 * embedding are refused. alpha 0 means 2 * rank. Returns 0, or -1 with *r (422, 507). On failure
 * *out is as after adapter_fini.
 */
int adapter_init(struct adapter *out, const struct model_config *config, size_t rank, double alpha,
    const char *targets, struct refusal *r);
/* Zeroed and half-made adapters are allowed. */
void adapter_fini(struct adapter *a);

/*
 * The values training starts from, into param (size), host: A ~ U(-1/sqrt(K), 1/sqrt(K)), B = 0.
 * An element depends on the seed, its tensor's key and its index alone (Philox4x32-10), so it is
 * the same on every device and thread count.
 */
void adapter_start(const struct adapter *a, uint64_t seed, float *param);

/* The tensor that holds element `index` of the flat buffers; index < size. */
const struct adapter_tensor *adapter_at(const struct adapter *a, size_t index);

#endif
