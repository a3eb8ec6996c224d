/* Opening the environment: its file is looked at first, then its version, then it is opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/store/store_check.h"
#include "supervisor/store/store_env.h"
#include "supervisor/store/store_guard.h"

static const char version_key[] = "version";

#define STORE_NAME(name, text, ...) text,
static const char *const table_names[] = {STORE_TABLE_LIST(STORE_NAME)};
#undef STORE_NAME

/* 0, also of a file that is not there yet; -EBADMSG or -errno. */
static int
check_file(const char *folder)
{
	char path[4096], reason[STORE_CHECK_REASON];
	int fd, error;

	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	/* one that is no file must not hold up the start */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	error = store_check(fd, reason);
	close(fd);
	if (error == -EBADMSG)
		log_error("the store %s is damaged: %s", folder, reason);
	return error;
}

/* A file that was cut would end the process when LMDB maps it and reads behind its end. The end of
   a good one may be missing too, where its last pages were given up before they were written. */
static int
restore_length(MDB_env *env, const char *path, const struct stat *st)
{
	MDB_envinfo info;
	MDB_stat stat;
	int rc = mdb_env_info(env, &info);

	if (rc == 0)
		rc = mdb_env_stat(env, &stat);
	if (rc != 0)
		return rc;
	if (info.me_last_pgno >= (size_t)STORE_MAP / stat.ms_psize)
		return MDB_INVALID;
	if ((size_t)st->st_size / stat.ms_psize > info.me_last_pgno)
		return 0;
	return truncate(path, (off_t)(info.me_last_pgno + 1) * stat.ms_psize) == 0 ? 0 : errno;
}

/* The record of the version; the transaction is the caller's to abort. */
struct versioned {
	MDB_env *env;
	MDB_txn *txn;
	MDB_val data;
};

static int
find_version(void *arg)
{
	MDB_val key = {sizeof(version_key) - 1, (void *)(uintptr_t)version_key};
	struct versioned *v = arg;
	MDB_dbi meta;
	int rc = mdb_txn_begin(v->env, NULL, MDB_RDONLY, &v->txn);

	if (rc == 0)
		rc = mdb_dbi_open(v->txn, table_names[STORE_META], 0, &meta);
	if (rc == 0)
		rc = mdb_get(v->txn, meta, &key, &v->data);
	return rc;
}

/* The version of a store that is there, read without touching it: 0 = none yet, or -errno. */
static int
read_version(const char *folder)
{
	char path[4096];
	struct versioned v = {0};
	struct stat st;
	int rc, version = 0;

	snprintf(path, sizeof(path), "%s/data.mdb", folder);
	if (stat(path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (st.st_size == 0)
		return 0; /* made, but never written: a start that was cut short */
	rc = mdb_env_create(&v.env);
	if (rc != 0)
		return store_env_error(rc);
	store_guard_env(v.env);
	mdb_env_set_maxdbs(v.env, STORE_TABLES);
	rc = mdb_env_open(v.env, folder, MDB_RDONLY | MDB_NOLOCK, 0600);
	if (rc == 0)
		rc = restore_length(v.env, path, &st);
	if (rc == 0)
		rc = store_guard(find_version, &v);
	if (rc == 0) {
		struct wire_get r;

		wire_get_init(&r, v.data.mv_data, v.data.mv_size);
		version = (int)(wire_get_u32(&r) & INT32_MAX);
		if (wire_get_end(&r) != 0 || version == 0)
			version = -EINVAL;
	}
	if (v.txn != NULL)
		mdb_txn_abort(v.txn);
	mdb_env_close(v.env);
	return rc == 0 || rc == MDB_NOTFOUND ? version : store_env_error(rc);
}

struct tables {
	struct store_env *env;
	MDB_txn *txn;
	bool older; /* than STORE_VERSION, which is to be written */
};

static int
make_tables(void *arg)
{
	MDB_val key = {sizeof(version_key) - 1, (void *)(uintptr_t)version_key}, data;
	struct tables *t = arg;
	uint8_t version[4];
	struct wire_put w;
	int rc = 0;

	for (int i = 0; rc == 0 && i < STORE_TABLES; i++)
		rc = mdb_dbi_open(t->txn, table_names[i], MDB_CREATE, &t->env->tables[i]);
	if (rc != 0 || !t->older)
		return rc;
	wire_put_init(&w, version, sizeof(version));
	wire_put_u32(&w, STORE_VERSION);
	data = (MDB_val){w.len, version};
	return mdb_put(t->txn, t->env->tables[STORE_META], &key, &data, 0);
}

static int
open_tables(struct store_env *s, bool older)
{
	struct tables t = {.env = s, .older = older};
	int rc = mdb_txn_begin(s->env, NULL, 0, &t.txn);

	if (rc != 0)
		return store_env_error(rc);
	rc = store_guard(make_tables, &t);
	if (rc != 0) {
		mdb_txn_abort(t.txn);
		return store_env_error(rc);
	}
	return store_env_error(mdb_txn_commit(t.txn));
}

int
store_env_open(struct store_env *s, const char *folder)
{
	int version, rc;

	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		return -errno;
	rc = check_file(folder);
	if (rc != 0)
		return rc;
	version = read_version(folder);
	if (version < 0)
		return version;
	if (version > STORE_VERSION)
		return -EPROTO;
	rc = mdb_env_create(&s->env);
	if (rc == 0)
		store_guard_env(s->env);
	if (rc == 0)
		rc = mdb_env_set_maxdbs(s->env, STORE_TABLES);
	if (rc == 0)
		rc = mdb_env_set_mapsize(s->env, (size_t)STORE_MAP);
	if (rc == 0)
		rc = mdb_env_open(s->env, folder, MDB_NOTLS, 0600);
	return rc != 0 ? store_env_error(rc) : open_tables(s, version < STORE_VERSION);
}
