/*
 * A Llama of any size on disk, as Transformers saves one, with random bfloat16 weights: what a step
 * over it takes does not depend on what it has learnt.
 */
#ifndef TESTS_BENCH_RANDOM_MODEL_H
#define TESTS_BENCH_RANDOM_MODEL_H

#include "tests/bench/roofline_models.h"

/* Bytes of the weights. */
size_t random_model_bytes(const struct roof_model *m);
/* Writes config.json and model.safetensors into `folder`, which is there. Returns the bytes of the
   weights, or 0 where that failed. */
size_t random_model_write(const struct roof_model *m, const char *folder);
/* Removes both. */
void random_model_remove(const char *folder);

#endif
