/*
 * The anchor of a session: the newest state that a worker can be brought back to, from where the
 * journal is replayed. A fresh session needs none, for its seed makes step 0 again. It is what the
 * session was opened from, then a state that was saved, or a recovery snapshot taken every
 * STEPD_SNAPSHOT_STEPS steps.
 *
 * A file becomes the anchor after it was read back from the disk and its digest found right: it is
 * given its name in the spool (session id, step, kind), and a record in the store chooses it. Only
 * then the one before it goes, with the journal up to it.
 */
#ifndef SUPERVISOR_SESSION_ANCHOR_H
#define SUPERVISOR_SESSION_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANCHOR_VERSION = 1, ANCHOR_RECORD_MAX = 128 };

struct session;
struct stepd;

struct anchor {
	int fd; /* -1 = none: step 0 of the seed */
	uint64_t step;
	uint8_t kind;	    /* enum artifact_kind */
	char sha256[65];    /* of its bytes, lower-case hex */
	bool named;	    /* it has a name in the spool */
	bool busy;	    /* another one is being checked */
	uint64_t next_step; /* not before this step another snapshot: the last one failed */
};

void anchor_init(struct anchor *a);
/* Closes it; its name stays. */
void anchor_fini(struct anchor *a);

/* The record in the store. Packs into storage of ANCHOR_RECORD_MAX bytes: the length, or -EMSGSIZE.
 */
long anchor_put(const struct anchor *a, void *storage);
/* step, kind and sha256; 0, -EPROTO (written by a newer version), or -EBADMSG. */
int anchor_get(struct anchor *a, const void *data, size_t len);

/* Makes this file the session's anchor, in the background; consumes fd. Dropped, with a line in the
   log, where it is not what the digest says, or where one is being checked already. */
void anchor_begin(struct session *s, int fd, uint64_t step, uint8_t kind, const char sha256[65]);
/* The session is closed: removes the name. */
void anchor_drop(struct session *s);
/* At the start: removes the files of the spool that are no session's anchor. */
void anchor_clean(struct stepd *stepd);

#endif
