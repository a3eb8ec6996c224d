/*
 * Adapter tensors in safetensors files: building the header of one that is written, and judging and
 * taking over what one that was read holds. Shared by the state and the sampling artifact.
 */
#ifndef WORKER_ARTIFACT_TENSOR_FILE_H
#define WORKER_ARTIFACT_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json_write.h"
#include "ipc/safetensors.h"
#include "ipc/refusal.h"
#include "worker/train/adapter.h"

/* A header that is being built: float32 matrices, one after the other. */
struct tensor_file {
	struct json_writer json;
	uint64_t at; /* bytes of data so far */
};

void tensor_file_init(struct tensor_file *f);
/* The writer stands inside __metadata__ between these two; only strings may be put. */
struct json_writer *tensor_file_metadata(struct tensor_file *f);
void tensor_file_metadata_end(struct tensor_file *f);
/* Adds all tensors of the adapter under prefix + key, in the adapter's order. */
void tensor_file_add(struct tensor_file *f, const char *prefix, const struct adapter *a);
/* The header as it stands in the file: length, JSON, spaces to a multiple of 8 bytes. The caller
   frees it; NULL: no memory. f is empty after. */
void *tensor_file_header(struct tensor_file *f, size_t *len);
void tensor_file_fini(struct tensor_file *f);

/* Checks that every tensor of the adapter is in s under prefix + key, in its shape and finite, in
   float32 or, if half is set, also float16 or bfloat16. `what` begins the refusal: "the state". */
int tensor_file_check(const struct safetensors *s, const struct adapter *a, const char *prefix,
    bool half, const char *what, struct refusal *r);
/* Copies tensors that were checked to out (a->size), as float32. */
void tensor_file_copy(
    const struct safetensors *s, const struct adapter *a, const char *prefix, float *out);
/* Refuses a value that is not finite, naming its tensor. */
int tensor_file_finite(
    const struct adapter *a, const char *prefix, const float *values, struct refusal *r);

#endif
