/*
 * safetensors: the header of a file of tensors, read from bytes that nobody vouches for. It is
 * here, beside the JSON it is made of, because both sides read it: the worker loads models and
 * artifacts, and stepctl checks the artifacts it was given. No maths: names, types, shapes, views.
 *
 * The layout: u64 little-endian length of the header, the header (a JSON object of name ->
 * {"dtype", "shape", "data_offsets": [begin, end]} and an optional "__metadata__" of strings), then
 * the data. Demanded: header within the file, names unique, every size equal to its shape's, the
 * tensors side by side from the first byte of the data to the last, no hole, no overlap.
 * Source: https://github.com/huggingface/safetensors, README "Format".
 */
#ifndef IPC_SAFETENSORS_H
#define IPC_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"

/* X(name in the file, bytes of an element) */
#define SAFETENSORS_DTYPES(X)                                                                      \
	X(F32, 4)                                                                                  \
	X(F16, 2)                                                                                  \
	X(BF16, 2)                                                                                 \
	X(F64, 8)                                                                                  \
	X(I64, 8)                                                                                  \
	X(I32, 4)                                                                                  \
	X(I16, 2)                                                                                  \
	X(I8, 1)                                                                                   \
	X(U64, 8)                                                                                  \
	X(U32, 4)                                                                                  \
	X(U16, 2)                                                                                  \
	X(U8, 1)                                                                                   \
	X(BOOL, 1)                                                                                 \
	X(F8_E4M3, 1)                                                                              \
	X(F8_E5M2, 1)

#define SAFETENSORS_ENUM(name, bytes) SAFETENSORS_##name,
enum safetensors_dtype { SAFETENSORS_DTYPES(SAFETENSORS_ENUM) SAFETENSORS_DTYPE_COUNT };
#undef SAFETENSORS_ENUM

enum { SAFETENSORS_MAX_DIMS = 8, SAFETENSORS_MAX_HEADER = 32 * 1024 * 1024 };

struct safetensors_tensor {
	const char *name; /* a view, NUL-terminated, holds no control characters */
	enum safetensors_dtype dtype;
	unsigned dims;
	uint64_t shape[SAFETENSORS_MAX_DIMS];
	uint64_t count;	  /* elements: the product of shape, 1 for a scalar */
	const void *data; /* a view of size bytes, not aligned */
	size_t size;
};

struct safetensors;

/* Reads the header of a file that lies at data; the caller keeps the bytes until
   safetensors_free. 0; -EBADMSG with the reason in why (a sentence without the file's name); or
   -ENOMEM. On failure *out is NULL. */
int safetensors_open(
    struct safetensors **out, const void *data, size_t len, char *why, size_t why_size);
void safetensors_free(struct safetensors *s);

/* Tensors in the order of their names' bytes. */
size_t safetensors_count(const struct safetensors *s);
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t index);
/* NULL if there is none of that name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* A value of __metadata__, NUL-terminated view, or NULL. Values that hold a NUL are refused. */
const char *safetensors_metadata(const struct safetensors *s, const char *key);
/* The whole __metadata__ object, or none. */
struct json safetensors_metadata_object(const struct safetensors *s);

const char *safetensors_dtype_name(enum safetensors_dtype dtype);
size_t safetensors_dtype_size(enum safetensors_dtype dtype);
/* Index of the first element that is NaN or infinite, or t->count; integers are always finite. */
uint64_t safetensors_first_nonfinite(const struct safetensors_tensor *t);

#endif
