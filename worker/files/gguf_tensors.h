/*
 * The tensors' part of a GGUF header, private to the gguf files: names, shapes, types and places,
 * checked against each other and against the file.
 */
#ifndef WORKER_FILES_GGUF_TENSORS_H
#define WORKER_FILES_GGUF_TENSORS_H

#include "worker/files/gguf_read.h"

/* Reads count tensors, sorted by name into g->tensors; start is the file's first byte. Needs the
   metadata (general.alignment). 0 or -1 refused. */
int gguf_read_tensors(
    struct gguf *g, struct gguf_cursor *c, const unsigned char *start, uint64_t count);

#endif
