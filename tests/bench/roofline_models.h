/*
 * Sizes of the published models that the roofline is told for, as their config.json says.
 */
#ifndef TESTS_BENCH_ROOFLINE_MODELS_H
#define TESTS_BENCH_ROOFLINE_MODELS_H

#include <stdbool.h>
#include <stddef.h>

struct roof_model {
	const char *name;
	size_t layers, width, heads, kv_heads, head_dim, mlp_width, vocabulary;
	bool tied;
	/* Gated DeltaNet: all layers but each `full_every`th; 0 = attention everywhere. Then
	   attention's q has a gate beside it. Sizes as in Qwen3.5. */
	size_t full_every, delta_key_heads, delta_value_heads, delta_dim;
};

/* The model of that name, or NULL; by index, or NULL behind the last. */
const struct roof_model *roof_model_find(const char *name);
const struct roof_model *roof_model_at(size_t index);

#endif
