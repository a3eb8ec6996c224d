/*
 * The datums of a session on the disk, sealed, where STEPD_PERSIST_DATA says so: what was rendered
 * is there again after stepd was started again. One file per session in the folder `datums` of the
 * state folder, removed when the session is closed. A part is the worker's answer to one render:
 *
 *	u64 length (big-endian), that many sealed bytes (seal.h), about "datums <session> <number>"
 *
 * A part that was cut by a crash was never answered, and is dropped when the file is read.
 */
#ifndef SUPERVISOR_SESSION_DATUM_FILE_H
#define SUPERVISOR_SESSION_DATUM_FILE_H

#include <stddef.h>
#include <stdint.h>

struct session;
struct stepd;

struct datum_file {
	int fd;	       /* -1 = none yet */
	uint64_t size; /* bytes that hold whole parts */
	uint64_t count;
};

void datum_file_init(struct datum_file *file);
/* Closes it; it stays on the disk. */
void datum_file_fini(struct datum_file *file);

/* Makes the folder, or where data is not to be persisted removes what an earlier stepd left there.
   With it the files of sessions that are over go. 0 or -errno. */
int datum_file_start(struct stepd *stepd);
/* Appends a part in the background: EV_KEPT follows when it is on the disk, or EV_NOT_KEPT, then
   the file is as before. The bytes are sealed at once, and not kept. */
void datum_file_append(struct session *s, const void *data, size_t len);
/* Reads every part into the session's datum log, in the background: EV_KEPT follows. What cannot be
   read is told in the log; the client can render it again. */
void datum_file_read(struct session *s);
/* The session is closed. */
void datum_file_drop(struct session *s);

#endif
