/*
 * GGUF (versions 2 and 3): one file that holds a model's metadata and its tensors, often quantized.
 * The reader works on bytes that nobody vouches for: every length, offset, type and name is checked
 * against the file once, when it is opened; after that nothing is copied, strings and tensor data
 * are views into the mapping. Getters may be called from several threads.
 * Source: the GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef WORKER_FILES_GGUF_H
#define WORKER_FILES_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"

struct gguf;

/* Types of metadata values, by their number in the file. */
enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPES
};

/* A view of an array of metadata. Elements are not aligned: read them with the getters below. */
struct gguf_array {
	enum gguf_type type; /* of the elements; never GGUF_ARRAY */
	size_t count;
	const unsigned char *next; /* first element; the iterator moves it */
	size_t left;		   /* elements from next on */
};

struct gguf_tensor {
	const char *name;  /* as in the file, NUL-terminated */
	uint32_t type;	   /* ggml's number: 0 F32, 1 F16, 2 Q4_0, ... see dequant.h */
	size_t rows, cols; /* cols = the file's first dimension; rows = the product of the others */
	const void *data;  /* view, size bytes, inside the mapping */
	size_t size;
};

/* Reads the headers of a GGUF file that lies at data; the caller keeps the bytes until gguf_free.
   `label` names the file in refusals. 0, or -1 with *r filled. */
int gguf_open(
    struct gguf **out, const void *data, size_t len, const char *label, struct refusal *r);
void gguf_free(struct gguf *g);

/* Each is false, and leaves its outputs alone, if the key is absent or of another kind. Integers of
   any width are taken where they fit, floats of both widths. Strings are not NUL-terminated. */
bool gguf_has(const struct gguf *g, const char *key);
/* The index-th key, in the order of bytes; false past the end. */
bool gguf_key_at(const struct gguf *g, size_t index, const char **key, size_t *len);
bool gguf_string(const struct gguf *g, const char *key, const char **text, size_t *len);
bool gguf_uint(const struct gguf *g, const char *key, uint64_t *out);
bool gguf_float(const struct gguf *g, const char *key, double *out); /* integers too */
bool gguf_bool(const struct gguf *g, const char *key, bool *out);
/* true if the key is a string equal to text. */
bool gguf_string_is(const struct gguf *g, const char *key, const char *text);

/* A fresh iterator over an array whose elements are of that kind: strings, or integers of any width
   (bool too). */
bool gguf_strings(const struct gguf *g, const char *key, struct gguf_array *out);
bool gguf_ints(const struct gguf *g, const char *key, struct gguf_array *out);
/* The next element, in order; false at the end. Cannot fail otherwise: lengths were checked. */
bool gguf_next_string(struct gguf_array *a, const char **text, size_t *len);
bool gguf_next_int(struct gguf_array *a, int64_t *out);

size_t gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t index);
/* NULL if there is none of that name. */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

#endif
