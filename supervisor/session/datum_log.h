/*
 * The datums of a session as its worker gave them, kept in memory for a worker that comes after it.
 * They hold training text, so they are nowhere else: one memfd, appended to, with the digest of
 * each part so that rendering the same again costs nothing.
 */
#ifndef SUPERVISOR_SESSION_DATUM_LOG_H
#define SUPERVISOR_SESSION_DATUM_LOG_H

#include <stddef.h>
#include <stdint.h>

enum { DATUM_DIGEST = 16 };

struct datum_part {
	uint8_t digest[DATUM_DIGEST];
	uint64_t offset, len; /* in the file */
};

struct datum_log {
	int fd; /* -1 = nothing yet */
	struct datum_part *parts;
	size_t count, room;
	uint64_t size;
};

void datum_log_init(struct datum_log *log);
void datum_log_fini(struct datum_log *log);
/* Keeps one worker's answer to a render call (its bytes are copied), unless it is there already.
   1: it is new, 0: it was there, or -errno. */
int datum_log_add(struct datum_log *log, const void *data, size_t len);
/* Takes the last part out again. */
void datum_log_drop_last(struct datum_log *log);
/* One part as the worker gave it, sealed. fd or -errno. */
int datum_log_part(const struct datum_log *log, size_t i);

#endif
