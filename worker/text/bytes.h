/*
 * A growing byte buffer and the one sentence for "memory ran out", for the text modules. Failure
 * sticks: put what there is to put and check `failed` once at the end.
 */
#ifndef WORKER_TEXT_BYTES_H
#define WORKER_TEXT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"

struct bytes {
	char *data;
	size_t len, size;
	bool failed; /* an allocation failed; what was put since is lost */
};

void bytes_fini(struct bytes *b);
/* Makes room for `more` further bytes; false, and failed set, if there is none. */
bool bytes_reserve(struct bytes *b, size_t more);
void bytes_put(struct bytes *b, const void *data, size_t len);
void bytes_put_text(struct bytes *b, const char *text);
/* Puts data before what lies at offset `at`. */
void bytes_insert(struct bytes *b, size_t at, const void *data, size_t len);

/* Makes *array, of elements of `each` bytes, hold at least `count`: grows by half, keeps the
   contents. false if there is no memory; the array is unchanged then. */
bool grow_array(void *array, size_t *size, size_t count, size_t each);

/* Refuses with 507: returns -1. */
int refuse_memory(struct refusal *r);

#endif
