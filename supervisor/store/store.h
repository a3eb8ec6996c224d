/*
 * What stepd keeps over a restart: an LMDB environment of few tables. Records are packed with
 * ipc/wire, the first byte their version; the store knows keys and bytes only.
 *
 * Commits cost an fsync, so they are made by a thread of the store's own: store_commit queues a
 * change and returns; changes go to disk in order, several in one transaction where they wait
 * together, each whole or not at all. Everything else belongs to the event loop's thread.
 */
#ifndef SUPERVISOR_STORE_STORE_H
#define SUPERVISOR_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct stepd;
struct store;

/* X(NAME, "name in the environment", what a record is) */
#define STORE_TABLE_LIST(X)                                                                        \
	X(META, "meta",                                                                            \
	    "the store's own: \"version\" -> u32; when it was started, how often; \"clock\"")      \
	X(SESSIONS, "sessions", "session id -> struct session_record")                             \
	X(JOURNAL, "journal", "session id, u64 step big-endian -> struct journal_step")            \
	X(ANCHORS, "anchors", "session id -> struct anchor")                                       \
	X(UPLOADS, "uploads", "session id -> struct upload")                                       \
	X(ANSWERS, "answers", "session id, Idempotency-Key -> struct kept_answer")                 \
	X(OPERATIONS, "operations", "operation id -> struct operation_record")

#define STORE_ENUM(name, ...) STORE_##name,
enum store_table { STORE_TABLE_LIST(STORE_ENUM) STORE_TABLES };
#undef STORE_ENUM

enum { STORE_VERSION = 4 };

/* One record to write, or with data NULL to remove. */
struct store_write {
	enum store_table table;
	const void *key; /* 1..511 bytes */
	size_t key_len;
	const void *data;
	size_t len;
};

/* A part of the program (stepd.h): the store in the state folder. */
int store_start(struct stepd *s);
void store_free(struct stepd *s);

/* Opens or makes the store in a folder (made with mode 0700), and starts its thread. 0; -EPROTO if
   a newer stepd wrote it, -EBADMSG if it is damaged (nothing was changed); -EINVAL if it is no
   store; or -errno. */
int store_open(struct store **out, struct event_base *base, const char *folder);
/* Whether a commit is on the disk before it is told (true, as opened), or only with the kernel:
   safe from the end of stepd, but not from that of the machine. */
void store_set_sync(struct store *s, bool sync);
/* Waits until everything queued is on disk, then closes; callbacks of what is left are not called.
   NULL is allowed. */
void store_close(struct store *s);

/* Queues writes as one change. done (may be NULL) is called from the event loop after the change is
   on disk (0), or could not be made (-errno). Keys and data are copied. 0; -ENOMEM, or -EINVAL for
   a key of a wrong length (done is not called). */
int store_commit(struct store *s, const struct store_write *writes, size_t count,
    void (*done)(void *ctx, int error), void *ctx);
/* The same, but fails with -ENOSPC unless there is room for another change of this size behind it:
   what is begun with it can be ended although the disk fills up meanwhile. */
int store_commit_begun(struct store *s, const struct store_write *writes, size_t count,
    void (*done)(void *ctx, int error), void *ctx);

/* What an operator wants to know. */
struct store_facts {
	uint64_t used_bytes, map_bytes; /* of its file, and what it may grow to */
	unsigned readers, readers_max;	/* places of readers that were ever in use, and there are */
	size_t changes;			/* queued or under way */
	double oldest_seconds;		/* since the oldest of these was queued, 0 = none */
};
/* Never waits for the disk. 0 or -errno. */
int store_facts(struct store *s, struct store_facts *out);

/* A copy of one record, which the caller frees; what is queued is not seen. 0, -ENOENT, or -errno
   with *data NULL. */
int store_get(struct store *s, enum store_table table, const void *key, size_t key_len, void **data,
    size_t *len);
/* Calls each record of a table in the order of keys; what is queued is not seen. Stops at and
   returns the first value of `each` that is not 0. Views, valid during the call. 0 or -errno. */
int store_each(struct store *s, enum store_table table,
    int (*each)(void *ctx, const void *key, size_t key_len, const void *data, size_t len),
    void *ctx);

#endif
