/*
 * gzip as streams of constant memory, by ISA-L at its fastest level: random float32 hardly
 * compresses, so time spent on it is lost. The reader takes any gzip file, also one of several
 * members, checks every CRC, and stops at a limit, so that a small file cannot unpack into a
 * large one.
 */
#ifndef WORKER_TRAIN_GZIP_H
#define WORKER_TRAIN_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "worker/refusal.h"
#include "worker/train/artifact.h"

struct gzip_writer;

/* Writes to sink, which the caller keeps until after the finish. NULL: no memory. */
struct gzip_writer *gzip_writer_new(struct artifact_sink *sink);
void gzip_write(struct gzip_writer *w, const void *data, size_t len);
/* The end of the stream. Errors are the sink's. */
void gzip_writer_finish(struct gzip_writer *w);
void gzip_writer_free(struct gzip_writer *w);

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
