/*
 * Which tensors a model consists of, by its configuration: one table of parts, from which the
 * loader checks a file, the digest takes its order and the trainer its names.
 */
#ifndef WORKER_FILES_TENSORS_H
#define WORKER_FILES_TENSORS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/files/config.h"

enum { MODEL_TENSOR_NAME = 128 };

struct model_tensor {
	char name[MODEL_TENSOR_NAME]; /* as Transformers has it */
	char gguf[64];		      /* as llama.cpp has it */
	size_t rows, cols;	      /* a vector is one row */
	bool vector;
	size_t heads; /* q and k: over how many heads GGUF interleaves their rows; else 0 */
};

/* Every tensor of the model, in the order embedding, layers, final norm, head. The caller frees
 *out. 0, or -1 with *r (no memory). */
int model_tensors(
    struct model_tensor **out, size_t *count, const struct model_config *c, struct refusal *r);

#endif
