/*
 * Rotary embedding as configurations spell it, turned into one frequency per pair of dimensions.
 * Types: default (Su et al. 2021, section 3.2.2: theta^(-2i/d)), linear (all divided by a factor;
 * Chen et al. 2023) and llama3 (long wavelengths divided, short ones kept, a smooth step between;
 * Llama 3.1). Anything else is refused by its name.
 */
#ifndef WORKER_FILES_CONFIG_ROPE_H
#define WORKER_FILES_CONFIG_ROPE_H

#include "worker/files/config.h"

/* Fills c->rope from config.json: rope_scaling or rope_parameters, rope_theta inside or beside it.
   c->head_dim and c->positions must be set. 0 or -1 with *r. */
int rope_from_json(
    struct model_config *c, struct json root, double default_theta, struct refusal *r);
/* The same from GGUF metadata `arch`.rope.* and the tensor rope_freqs.weight. */
int rope_from_gguf(
    struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r);

#endif
