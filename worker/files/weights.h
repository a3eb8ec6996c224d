/*
 * The weights of a model on disk, private to files.c: the safetensors of a folder, by their index
 * or alone, or the tensors of a GGUF file, bound to the names and shapes that the configuration
 * asks for. What the configuration does not ask for and could change the maths is refused.
 */
#ifndef WORKER_FILES_WEIGHTS_H
#define WORKER_FILES_WEIGHTS_H

#include "ipc/safetensors.h"
#include "kernels/dequant.h"
#include "worker/files/file_map.h"
#include "worker/files/tensors.h"

struct weight {
	const char *name; /* in weights.wanted */
	enum dequant_type type;
	size_t rows, cols;
	size_t heads; /* rows (a vector's elements) are interleaved over these; 0 = in order */
	bool vector;
	const unsigned char *data; /* view */
	size_t row_bytes;
};

struct weight_shard {
	char *name; /* file name */
	struct file_map map;
	struct safetensors *tensors;
};

struct weights {
	struct model_tensor *wanted; /* as tensors.h lists them */
	struct weight *list;	     /* by name */
	size_t count;
	struct weight_shard *shards;
	size_t shard_count;
};

/* Opens the safetensors of a folder. 0 or -1 with *r; free in both cases. */
int weights_from_folder(
    struct weights *w, const char *dir, const struct model_config *c, struct refusal *r);
/* Binds the tensors of a GGUF file, whose bytes the caller keeps. */
int weights_from_gguf(
    struct weights *w, const struct gguf *g, const struct model_config *c, struct refusal *r);
/* A zeroed or half-made struct is allowed. */
void weights_fini(struct weights *w);

/* NULL if there is none of that name. */
const struct weight *weights_find(const struct weights *w, const char *name);

#endif
