/*
 * How a GGUF header is read, private to the gguf files: the cursor that never passes the end of the
 * file, and the metadata. The tensors' part is gguf_tensors.h.
 */
#ifndef WORKER_FILES_GGUF_READ_H
#define WORKER_FILES_GGUF_READ_H

#include "worker/files/gguf.h"

struct gguf_entry {
	const char *key; /* view, not terminated */
	size_t key_len;
	enum gguf_type type;
	enum gguf_type item;	   /* of an array's elements */
	uint64_t count;		   /* elements of an array; bytes of a string */
	const unsigned char *data; /* value, first element, or text */
};

struct gguf {
	struct gguf_entry *entries; /* by key */
	size_t entry_count;
	struct gguf_tensor *tensors; /* by name */
	size_t tensor_count;
	char *names; /* where the tensors' names lie */
};

/* The place in the file that is read next. */
struct gguf_cursor {
	const unsigned char *at, *end;
	const char *label;
	struct refusal *refusal;
};

extern const size_t gguf_type_size[GGUF_TYPES]; /* 0 where it varies */

/* Refuses the file as cut short. */
int gguf_cut(const struct gguf_cursor *c);
/* An unsigned little-endian integer of size bytes. 0 or -1 refused. */
int gguf_take(struct gguf_cursor *c, size_t size, uint64_t *out);
/* A view of a string. 0 or -1 refused. */
int gguf_take_string(struct gguf_cursor *c, const char **text, size_t *len);
/* All metadata, sorted by key into g->entries. 0 or -1 refused. */
int gguf_read_entries(struct gguf *g, struct gguf_cursor *c, uint64_t count);
/* qsort's and bsearch's order of entries. */
int gguf_by_key(const void *a, const void *b);

#endif
