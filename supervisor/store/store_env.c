#include "supervisor/store/store_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "supervisor/store/store_guard.h"

enum { RESERVE_MORE = 1 << 20 };

int
store_env_error(int rc)
{
	switch (rc) {
	case 0:
		return 0;
	case MDB_MAP_FULL:
		return -ENOSPC;
	case MDB_VERSION_MISMATCH:
		return -EPROTO;
	default:
		return rc > 0 ? -rc : rc == MDB_INVALID ? -EINVAL : -EIO;
	}
}

struct application {
	struct store_env *env;
	MDB_txn *txn;
	const struct store_write *writes;
	size_t count;
};

static int
apply(void *arg)
{
	const struct application *a = arg;

	for (size_t i = 0; i < a->count; i++) {
		const struct store_write *w = &a->writes[i];
		MDB_dbi table = a->env->tables[w->table];
		MDB_val key = {w->key_len, (void *)(uintptr_t)w->key};
		MDB_val data = {w->len, (void *)(uintptr_t)w->data};
		int rc = w->data != NULL ? mdb_put(a->txn, table, &key, &data, 0)
					 : mdb_del(a->txn, table, &key, NULL);

		if (rc != 0 && !(w->data == NULL && rc == MDB_NOTFOUND))
			return rc;
	}
	return 0;
}

int
store_env_apply(struct store_env *s, MDB_txn *txn, const struct store_write *writes, size_t count)
{
	struct application a = {s, txn, writes, count};

	return store_env_error(store_guard(apply, &a));
}

int
store_env_is_there(struct store_env *s)
{
	const char *folder;
	char path[4096];
	struct stat open, named;
	mdb_filehandle_t fd;

	if (mdb_env_get_fd(s->env, &fd) != 0 || mdb_env_get_path(s->env, &folder) != 0)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	if (fstat(fd, &open) != 0)
		return -errno;
	if (stat(path, &named) != 0)
		return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
	return open.st_dev == named.st_dev && open.st_ino == named.st_ino ? 0 : -ESTALE;
}

int
store_env_begin(struct store_env *s, MDB_txn **txn)
{
	return store_env_error(mdb_txn_begin(s->env, NULL, 0, txn));
}

int
store_env_commit(MDB_txn *txn)
{
	return store_env_error(mdb_txn_commit(txn));
}

void
store_env_close(struct store_env *s)
{
	if (s->env != NULL)
		mdb_env_close(s->env);
	s->env = NULL;
}

int
store_env_reserve(struct store_env *s, size_t bytes)
{
	MDB_envinfo info;
	mdb_filehandle_t fd;
	MDB_stat stat;
	off_t used, wanted, end;
	int rc = mdb_env_info(s->env, &info);

	if (rc == 0)
		rc = mdb_env_stat(s->env, &stat);
	if (rc == 0)
		rc = mdb_env_get_fd(s->env, &fd);
	if (rc != 0)
		return store_env_error(rc);
	used = (off_t)(info.me_last_pgno + 1) * stat.ms_psize;
	wanted = used + (off_t)bytes;
	if (wanted <= s->reserved)
		return 0;
	if (wanted > STORE_MAP)
		return -ENOSPC;
	/* More, so that it is not asked for every time; else what has to be. */
	end = wanted + RESERVE_MORE > STORE_MAP ? STORE_MAP : wanted + RESERVE_MORE;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, used, end - used) != 0) {
		end = wanted;
		if (fallocate(fd, FALLOC_FL_KEEP_SIZE, used, end - used) != 0 &&
		    errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
	}
	s->reserved = end;
	return 0;
}

void
store_env_set_sync(struct store_env *s, bool sync)
{
	mdb_env_set_flags(s->env, MDB_NOSYNC, !sync);
}

int
store_env_facts(struct store_env *s, struct store_facts *out)
{
	MDB_envinfo info;
	MDB_stat stat;
	int rc = mdb_env_info(s->env, &info), error = store_env_is_there(s);

	if (rc == 0)
		rc = mdb_env_stat(s->env, &stat);
	if (rc != 0 || error != 0)
		return error != 0 ? error : store_env_error(rc);
	out->used_bytes = (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize;
	out->map_bytes = info.me_mapsize;
	out->readers = info.me_numreaders;
	out->readers_max = info.me_maxreaders;
	return 0;
}

struct lookup {
	MDB_txn *txn;
	MDB_dbi table;
	MDB_val key, value;
};

static int
look_up(void *arg)
{
	struct lookup *l = arg;

	return mdb_get(l->txn, l->table, &l->key, &l->value);
}

int
store_env_get(struct store_env *s, enum store_table table, const void *key, size_t key_len,
    void **data, size_t *len)
{
	struct lookup l = {.table = s->tables[table], .key = {key_len, (void *)(uintptr_t)key}};
	int rc;

	*data = NULL;
	*len = 0;
	rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &l.txn);
	if (rc != 0)
		return store_env_error(rc);
	rc = store_guard(look_up, &l);
	if (rc == 0) {
		*data = malloc(l.value.mv_size + 1);
		if (*data != NULL)
			memcpy(*data, l.value.mv_data, l.value.mv_size);
		*len = l.value.mv_size;
	}
	mdb_txn_abort(l.txn);
	if (rc == MDB_NOTFOUND)
		return -ENOENT;
	return rc == 0 && *data == NULL ? -ENOMEM : store_env_error(rc);
}

struct walk {
	MDB_txn *txn;
	MDB_dbi table;
	MDB_cursor *cursor;
	int (*each)(void *ctx, const void *key, size_t key_len, const void *data, size_t len);
	void *ctx;
	int got; /* of each */
};

static int
walk(void *arg)
{
	struct walk *w = arg;
	MDB_val key, data;
	int rc = mdb_cursor_open(w->txn, w->table, &w->cursor);

	while (rc == 0 && w->got == 0) {
		rc = mdb_cursor_get(w->cursor, &key, &data, MDB_NEXT);
		if (rc == 0)
			w->got =
			    w->each(w->ctx, key.mv_data, key.mv_size, data.mv_data, data.mv_size);
	}
	return rc;
}

int
store_env_each(struct store_env *s, enum store_table table,
    int (*each)(void *ctx, const void *key, size_t key_len, const void *data, size_t len),
    void *ctx)
{
	struct walk w = {.table = s->tables[table], .each = each, .ctx = ctx};
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &w.txn);

	if (rc != 0)
		return store_env_error(rc);
	rc = store_guard(walk, &w);
	if (w.cursor != NULL)
		mdb_cursor_close(w.cursor);
	mdb_txn_abort(w.txn);
	return w.got != 0 ? w.got : rc == MDB_NOTFOUND ? 0 : store_env_error(rc);
}
