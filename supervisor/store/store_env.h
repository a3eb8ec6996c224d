/*
 * The LMDB environment under the store: opening with its version judged first, writing in
 * transactions, reading. Any thread, one write transaction at a time.
 */
#ifndef SUPERVISOR_STORE_STORE_ENV_H
#define SUPERVISOR_STORE_STORE_ENV_H

#include <lmdb.h>
#include <sys/types.h>

#include "supervisor/store/store.h"

/* Bytes of address space, not of disk: the file grows with what is in it. */
#define STORE_MAP ((off_t)16 << 30)

struct store_env {
	MDB_env *env;
	MDB_dbi tables[STORE_TABLES];
	off_t reserved; /* the disk has room for the file up to here */
};

/* What LMDB returned, as 0 or -errno: its own codes are negative and far from errno's. */
int store_env_error(int rc);

/* store_env_open.c; see store_open for the errors. On failure store_env_close is still owed. */
int store_env_open(struct store_env *s, const char *folder);
void store_env_close(struct store_env *s);

/* Whether the file that is written to is still the one of its name: what goes into another one is
   found by no start. 0, -ESTALE (removed, or another in its place), or -errno. */
int store_env_is_there(struct store_env *s);

int store_env_begin(struct store_env *s, MDB_txn **txn);
/* 0 or -errno; the transaction is the caller's to abort or commit. */
int store_env_apply(
    struct store_env *s, MDB_txn *txn, const struct store_write *writes, size_t count);
int store_env_commit(MDB_txn *txn);

/* Sees to it that the disk has room for `bytes` more than the file holds, taken now and used by
   what is written next, also when the disk is full by then. A file system that cannot promise that
   is believed. 0 or -errno. */
int store_env_reserve(struct store_env *s, size_t bytes);

void store_env_set_sync(struct store_env *s, bool sync);
/* Its bytes and readers. 0 or -errno. */
int store_env_facts(struct store_env *s, struct store_facts *out);

/* As store_get. */
int store_env_get(struct store_env *s, enum store_table table, const void *key, size_t key_len,
    void **data, size_t *len);
/* As store_each. */
int store_env_each(struct store_env *s, enum store_table table,
    int (*each)(void *ctx, const void *key, size_t key_len, const void *data, size_t len),
    void *ctx);

#endif
