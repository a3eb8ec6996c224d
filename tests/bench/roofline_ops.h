/*
 * The ops of one LoRA training step, each with its flops and the bytes it has to move: the lists of
 * worker/model/forward.c and backward.c, the head's loss, and the update, as numbers. One sequence
 * of T tokens, all of them supervised, every linear layer adapted. bfloat16 where the activation
 * type stands, float32 where the ops say float32. Each is as CUDA's ops launch it, with the flops
 * that a kernel does more than the maths asks for; what a product reads twice because it does not
 * fit on the chip is not counted, so this is what is possible at best.
 */
#ifndef TESTS_BENCH_ROOFLINE_OPS_H
#define TESTS_BENCH_ROOFLINE_OPS_H

#include <stdbool.h>
#include <stddef.h>

/* Kinds of ops, as they are added up and shown: X(NAME, words). */
#define ROOF_KIND_LIST(X)                                                                          \
	X(LINEAR, "linear, forward")                                                               \
	X(LINEAR_BACKWARD, "linear, input gradient")                                               \
	X(LORA, "lora, forward")                                                                   \
	X(LORA_BACKWARD, "lora, backward")                                                         \
	X(ATTENTION, "attention, forward")                                                         \
	X(ATTENTION_BACKWARD, "attention, backward")                                               \
	X(DELTA, "gated DeltaNet")                                                                 \
	X(NORM, "norms")                                                                           \
	X(ROPE, "rope")                                                                            \
	X(SWIGLU, "SwiGLU")                                                                        \
	X(ROUND, "rounding to bfloat16")                                                           \
	X(RESIDUAL, "residuals, embedding")                                                        \
	X(HEAD, "head and loss")                                                                   \
	X(UPDATE, "AdamW, norm of the gradient")

#define ROOF_KIND_ENUM(name, words) ROOF_##name,
enum roof_kind { ROOF_KIND_LIST(ROOF_KIND_ENUM) ROOF_KINDS };
#undef ROOF_KIND_ENUM

struct roof_model {
	const char *name;
	size_t layers, width, heads, kv_heads, head_dim, mlp_width, vocabulary;
	bool tied;
	/* Gated DeltaNet: all layers but each `full_every`th; 0 = attention everywhere. Then
	   attention's q has a gate beside it. Sizes as in Qwen3.5. */
	size_t full_every, delta_key_heads, delta_value_heads, delta_dim;
};

struct roof_options {
	size_t tokens, rank;
	size_t recompute; /* of so many layers, but the last of them, the forward pass runs twice */
	bool f32;	  /* activations and products in float32, as the CPU's reference */
};

struct roof_sum {
	double flops, bytes;
	double seconds;	 /* each op: the longer of flops and bytes on the card */
	double by_bytes; /* seconds of those that the bytes bound */
	size_t ops;
};

/* Peaks of a card, per second. */
struct roof_rates {
	double flops;  /* of tensor cores: bfloat16 operands, float32 sums */
	double single; /* float32 outside of tensor cores */
	double bytes;
};

struct roof_step {
	struct roof_sum kind[ROOF_KINDS];
	struct roof_sum total;
	double recomputed; /* flops of the total that were done a second time */
	size_t adapter;	   /* floats */
};

const char *roof_kind_words(enum roof_kind kind);
/* The model of that name, or NULL; by index, or NULL behind the last. */
const struct roof_model *roof_model_find(const char *name);
const struct roof_model *roof_model_at(size_t index);
/* Adds up the step. */
void roof_step_make(struct roof_step *s, const struct roof_model *m, const struct roof_options *o,
    const struct roof_rates *rates);

#endif
