/*
 * tar in the ustar form: members one after the other, each a header block and its data in whole
 * blocks. This is the writer; ipc/tar_read.h reads.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format".
 */
#ifndef WORKER_ARTIFACT_TAR_H
#define WORKER_ARTIFACT_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/tar.h"
#include "worker/artifact/gzip.h"

/* Header of a plain file of `size` bytes, mode 0644; name at most 99 bytes. */
void tar_put_header(struct gzip_writer *w, const char *name, uint64_t size);
/* Zeros up to the next block, after the data of a file of `size` bytes. */
void tar_put_padding(struct gzip_writer *w, uint64_t size);
/* A whole small file. */
void tar_put_file(struct gzip_writer *w, const char *name, const void *data, size_t len);
/* The two empty blocks at the end. */
void tar_put_end(struct gzip_writer *w);

#endif
