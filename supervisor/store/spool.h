/*
 * Spool files: artifacts on their way between a worker and the network. They have no name from the
 * start, so nothing is left behind, however stepd ends.
 */
#ifndef SUPERVISOR_STORE_SPOOL_H
#define SUPERVISOR_STORE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the folder if it is not there (mode 0700). 0 or -errno. */
int spool_prepare(const char *folder);
/* An empty nameless file, open for reading and writing. fd or -errno. */
int spool_new(const char *folder);
/* A second descriptor of the same file that cannot write. fd or -errno; fd stays the caller's. */
int spool_read_only(int fd);
/* What naming an open file failed with: can it have no name there (it had one once, lies on another
   file system, or its own has no links), so that only a copy of it can? */
bool spool_needs_copy(int error);
/* `size` bytes from the start of a file into an empty one, on the disk when this returns. Blocks. 0
   or -errno. */
int spool_copy(int to, int from, uint64_t size);
/* The file's size, or -errno. */
int64_t spool_size(int fd);

#endif
