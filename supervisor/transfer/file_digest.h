/*
 * The SHA-256 of a file, taken a slice per turn of the event loop, so that a large file holds
 * nobody up.
 */
#ifndef SUPERVISOR_TRANSFER_FILE_DIGEST_H
#define SUPERVISOR_TRANSFER_FILE_DIGEST_H

#include <stdint.h>

struct event_base;
struct file_digest;

/* Starts reading fd from its start to its end; fd stays the caller's and open until done or
   file_digest_cancel. done is called from the loop, never from inside this call: error 0 with the
   size and 64 hex digits, or -errno. The job, which is gone when done is called; NULL: no memory.
 */
struct file_digest *file_digest_begin(struct event_base *base, int fd,
    void (*done)(void *ctx, int error, uint64_t size, const char *hex), void *ctx);
/* NULL is allowed. */
void file_digest_cancel(struct file_digest *d);

#endif
