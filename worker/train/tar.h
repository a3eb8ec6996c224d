/*
 * tar in the ustar form: members one after the other, each a header block and its data in whole
 * blocks. This is the writer; tar_read.h reads.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format".
 */
#ifndef WORKER_TRAIN_TAR_H
#define WORKER_TRAIN_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "worker/train/gzip.h"

enum { TAR_BLOCK = 512 };

/* POSIX.1-2017, "ustar Header Block". */
struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
	char type;
	char linkname[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is one block");

/* Sum of all bytes of a header, those of its checksum counted as spaces. */
unsigned tar_checksum(const struct tar_header *h);

/* Header of a plain file of `size` bytes, mode 0644; name at most 99 bytes. */
void tar_put_header(struct gzip_writer *w, const char *name, uint64_t size);
/* Zeros up to the next block, after the data of a file of `size` bytes. */
void tar_put_padding(struct gzip_writer *w, uint64_t size);
/* A whole small file. */
void tar_put_file(struct gzip_writer *w, const char *name, const void *data, size_t len);
/* The two empty blocks at the end. */
void tar_put_end(struct gzip_writer *w);

#endif
