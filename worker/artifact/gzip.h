/*
 * Writing gzip as a stream of constant memory, by ISA-L at its fastest level: random float32 hardly
 * compresses, so time spent on it is lost.
 */
#ifndef WORKER_ARTIFACT_GZIP_H
#define WORKER_ARTIFACT_GZIP_H

#include <stddef.h>

#include "worker/artifact/artifact.h"

struct gzip_writer;

/* Writes to sink, which the caller keeps until after the finish. NULL: no memory. */
struct gzip_writer *gzip_writer_new(struct artifact_sink *sink);
void gzip_write(struct gzip_writer *w, const void *data, size_t len);
/* The end of the stream. Errors are the sink's. */
void gzip_writer_finish(struct gzip_writer *w);
void gzip_writer_free(struct gzip_writer *w);

#endif
