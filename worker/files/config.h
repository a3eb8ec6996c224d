/*
 * What a model computes, as data: one struct, filled from config.json or from GGUF metadata, that
 * tells the forward and backward pass everything. A family is a row in config.c's table that reads
 * its own spelling into this struct; each layer has a row that says which mixer it has and how.
 * Whatever would change the maths and is not known here is refused by its name, never guessed.
 */
#ifndef WORKER_FILES_CONFIG_H
#define WORKER_FILES_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"
#include "worker/files/gguf.h"
#include "ipc/refusal.h"

enum model_mixer {
	MIXER_ATTENTION, /* causal softmax attention */
};

enum model_activation {
	ACTIVATION_SILU, /* down(silu(gate x) * up x) */
};

/* One decoder layer: x += mixer(norm(x)); x += mlp(norm(x)). */
struct model_layer {
	enum model_mixer mixer;
	size_t window; /* attention: 0 = all before; else token i sees j with 0 <= i-j < window */
	bool qkv_bias; /* q_proj, k_proj, v_proj have biases */
	bool o_bias;   /* o_proj */
	bool mlp_bias; /* gate_proj, up_proj, down_proj */
};

struct model_rope {
	size_t half; /* pairs that turn: dimensions d and d+half, d < half; 2*half <= head_dim */
	float *frequency; /* (half) radians for one position, scaling applied; owned */
	float magnitude;  /* what cos and sin are multiplied by */
};

struct model_config {
	const char *family; /* model_type: "llama" */
	const char *prefix; /* what Transformers' names of the decoder begin with: "model" */
	size_t vocabulary;  /* V: rows of the embedding */
	size_t width;	    /* D: hidden_size */
	size_t heads;	    /* H */
	size_t kv_heads;    /* G, divides H */
	size_t head_dim;    /* E */
	size_t mlp_width;   /* F: intermediate_size */
	size_t positions;   /* max_position_embeddings, 0 = not told */
	size_t layer_count;
	struct model_layer *layers; /* (layer_count), owned */
	enum model_activation activation;
	struct model_rope rope;
	float norm_epsilon;
	bool norm_one_plus;	    /* norms multiply by 1+w instead of w */
	float score_scale;	    /* of q.k, usually E^-1/2 */
	bool tied_head;		    /* the output head is the embedding; else lm_head.weight */
	bool gguf_interleaved;	    /* in GGUF, rows of q and k are in pairs (d, d+half) */
	const char *const *skipped; /* prefixes of tensors that training does not use; NULL ends */
};

/* Reads a config.json. On success the caller owns *out (model_config_fini). 0, or -1 with *r. */
int model_config_from_json(struct model_config *out, struct json root, struct refusal *r);
/* The same from GGUF metadata and the names of its tensors. */
int model_config_from_gguf(struct model_config *out, const struct gguf *file, struct refusal *r);
/* Frees what the struct owns; a zeroed or half-made struct is allowed. */
void model_config_fini(struct model_config *c);

#endif
