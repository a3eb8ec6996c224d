/*
 * Reading one weight, private to files.c: dequantized, converted, in Transformers' row order; and
 * the digest over all of them.
 */
#ifndef WORKER_FILES_WEIGHT_READ_H
#define WORKER_FILES_WEIGHT_READ_H

#include "kernels/ops.h"
#include "worker/files/weights.h"

/* out (count, cols) = rows first .. first+count-1 of w as float32 or bfloat16. 0, or -1 if there
   is no memory. */
int weight_read(const struct weight *w, void *out, enum op_dtype as, size_t first, size_t count);
/* The same rows as they are stored; w is no vector. */
void weight_copy(const struct weight *w, void *out, size_t first, size_t count);
/* SHA-256 over the digests of all weights, see files.h. 0, or -1 if there is no memory. */
int weights_digest(const struct weights *w, char hex[65]);

#endif
