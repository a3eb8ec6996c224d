/*
 * A Llama of any size on disk, as Transformers saves one, with random bfloat16 weights: what a step
 * over it takes does not depend on what it has learnt.
 */
#ifndef TESTS_BENCH_RANDOM_MODEL_H
#define TESTS_BENCH_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdio.h>

#include "tests/bench/roofline_models.h"

/* Bytes of the weights. */
size_t random_model_bytes(const struct roof_model *m);
/* The text of config.json. */
void random_model_config(const struct roof_model *m, FILE *f);
/* Writes config.json and model.safetensors into `folder`, which is there. The weights lie in
   memory, which goes with the process, or, where that is short, on the folder's disk; *in_memory
   tells. Returns their bytes, or 0 where that failed. */
size_t random_model_write(const struct roof_model *m, const char *folder, bool *in_memory);
/* Removes both. */
void random_model_remove(const char *folder);

#endif
