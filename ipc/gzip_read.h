/*
 * Reading gzip as a stream of constant memory, from bytes that nobody vouches for, by ISA-L: any
 * gzip file, also one of several members; every CRC is checked, and it stops at a limit, so that a
 * small file cannot unpack into a large one. Both sides read archives: the worker when it resumes,
 * stepctl when it unpacks.
 */
#ifndef IPC_GZIP_READ_H
#define IPC_GZIP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"

struct gzip_reader;

/* Reads len bytes at data, which the caller keeps; at most `limit` bytes come out. NULL: no
   memory. */
struct gzip_reader *gzip_reader_new(const void *data, size_t len, uint64_t limit);
void gzip_reader_free(struct gzip_reader *g);
/* How many bytes may still come out before the limit. */
uint64_t gzip_left(const struct gzip_reader *g);
/* Up to len bytes into out: the count, fewer only at the end; -1 with *r (422: not gzip, damaged,
   cut short, or larger than the limit). */
ptrdiff_t gzip_read(struct gzip_reader *g, void *out, size_t len, struct refusal *r);

#endif
