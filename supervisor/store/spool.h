/*
 * Spool files: artifacts on their way between a worker and the network. They have no name from the
 * start, so nothing is left behind, however stepd ends.
 */
#ifndef SUPERVISOR_STORE_SPOOL_H
#define SUPERVISOR_STORE_SPOOL_H

#include <stdint.h>

/* Makes the folder if it is not there (mode 0700). 0 or -errno. */
int spool_prepare(const char *folder);
/* An empty nameless file, open for reading and writing. fd or -errno. */
int spool_new(const char *folder);
/* A second descriptor of the same file that cannot write. fd or -errno; fd stays the caller's. */
int spool_read_only(int fd);
/* The file's size, or -errno. */
int64_t spool_size(int fd);

#endif
