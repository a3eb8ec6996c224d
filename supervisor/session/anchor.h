/*
 * The anchor of a session: the newest state that a worker can be brought back to, from where the
 * journal is replayed. A fresh session needs none, for its seed makes step 0 again. It is what the
 * session was opened from, then a state that was saved, or a recovery snapshot.
 *
 * A file becomes the anchor after it was read back from the disk and its digest found right: it is
 * given its name in the spool (session id, step, kind), and a record in the store chooses it. Only
 * when the store holds that, the one before it goes, with the journal up to the new one.
 */
#ifndef SUPERVISOR_SESSION_ANCHOR_H
#define SUPERVISOR_SESSION_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANCHOR_VERSION = 1, ANCHOR_RECORD_MAX = 128 };

struct anchoring;
struct session;
struct stepd;

struct anchor {
	int fd; /* -1 = none, or not opened */
	uint64_t step;
	uint8_t kind;		  /* enum artifact_kind */
	char sha256[65];	  /* of its bytes, lower-case hex */
	bool named;		  /* it has a name in the spool, and its record */
	bool unreadable;	  /* it has a record that another version wrote; left alone */
	bool newer;		  /* a newer one did */
	bool unread;		  /* it could not be read now; another time it may */
	int name_error;		  /* why the last one got no name: -errno, 0 = not known */
	struct anchoring *coming; /* another one is on its way to the disk */
	uint64_t pruned;	  /* the journal holds no step up to this one */
	uint64_t next_step;	  /* not before this step another snapshot: the last one failed */
	double at;   /* monotonic seconds at which the worker was there; 0: not known */
	double cost; /* seconds that the last snapshot took, from asking to the disk */
};

void anchor_init(struct anchor *a);
/* Closes it; its name stays. What is on its way is forgotten: it will find no session. */
void anchor_fini(struct anchor *a);

/* The record in the store. Packs into storage of ANCHOR_RECORD_MAX bytes: the length, or -EMSGSIZE.
 */
long anchor_put(const struct anchor *a, void *storage);
/* step, kind and sha256; 0, -EPROTO (written by a newer version), or -EBADMSG. */
int anchor_get(struct anchor *a, const void *data, size_t len);

/* Makes this file the session's anchor, in the background; consumes fd. EV_ANCHORED follows, also
   where it is not what the digest says (with a line in the log). begun: monotonic seconds at which
   the worker was asked, 0: it was not made for this. Dropped where one is on its way already. */
void anchor_begin(
    struct session *s, int fd, uint64_t step, uint8_t kind, const char sha256[65], double begun);
/* The same with the anchor that the session has, which lacks its name. */
void anchor_renew(struct session *s);
/* The session is closed, or never was: removes the name and the record. */
void anchor_drop(struct session *s);
/* Opens the anchor's file again, and reads whether it is what its digest says, in the background:
   EV_KEPT or EV_NOT_KEPT follows; or -ENOMEM. */
int anchor_check(struct session *s);
/* At the end, when no thread and no callback of the store comes any more. */
void anchor_free_all(struct stepd *stepd);

#endif
