/* The wrappers of libraries, whose errors are their own. */
#include <curl/curl.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <lmdb.h>
#include <pwd.h>
#include <seccomp.h>
#include <stdarg.h>

#include "tests/fault/fail_wrap.h"

#define WRAP_STORE(name, parameters, arguments)                                                    \
	int name parameters;                                                                       \
	static void *real_##name;                                                                  \
	int name parameters                                                                        \
	{                                                                                          \
		int got;                                                                           \
                                                                                                   \
		if (fail_now(FAIL_STORE, #name, &got))                                             \
			return got;                                                                \
		fail_inside++;                                                                     \
		got = REAL(name) arguments;                                                        \
		fail_inside--;                                                                     \
		return got;                                                                        \
	}
WRAP_STORE(mdb_env_create, (MDB_env * *env), (env))
WRAP_STORE(mdb_env_open, (MDB_env * env, const char *path, unsigned flags, mdb_mode_t mode),
    (env, path, flags, mode))
WRAP_STORE(mdb_txn_begin, (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn),
    (env, parent, flags, txn))
WRAP_STORE(mdb_dbi_open, (MDB_txn * txn, const char *name, unsigned flags, MDB_dbi *dbi),
    (txn, name, flags, dbi))
WRAP_STORE(mdb_put, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags),
    (txn, dbi, key, data, flags))
WRAP_STORE(
    mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), (txn, dbi, key, data))
WRAP_STORE(
    mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), (txn, dbi, key, data))
WRAP_STORE(mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor), (txn, dbi, cursor))
WRAP_STORE(mdb_cursor_get, (MDB_cursor * c, MDB_val *key, MDB_val *data, MDB_cursor_op op),
    (c, key, data, op))

/* A commit that fails has freed its transaction. */
int
mdb_txn_commit(MDB_txn *txn)
{
	static void *real_mdb_txn_commit;
	int got, error = 0;
	bool failing = fail_now(FAIL_STORE, "mdb_txn_commit", &error);

	fail_inside++;
	if (failing)
		mdb_txn_abort(txn);
	got = failing ? error : REAL(mdb_txn_commit)(txn);
	fail_inside--;
	return got;
}

/* glibc's first look-up does not survive a failure in here: it goes on with what it has not got. */
#define WRAP_LOOKUP(name, parameters, arguments)                                                   \
	struct passwd *name parameters;                                                            \
	static void *real_##name;                                                                  \
	struct passwd *name parameters                                                             \
	{                                                                                          \
		struct passwd *got;                                                                \
                                                                                                   \
		if (fail_plain(FAIL_READ, #name))                                                  \
			return NULL;                                                               \
		fail_inside++;                                                                     \
		got = REAL(name) arguments;                                                        \
		fail_inside--;                                                                     \
		return got;                                                                        \
	}
WRAP_LOOKUP(getpwnam, (const char *user), (user))
WRAP_LOOKUP(getpwuid, (uid_t uid), (uid))

/* libseccomp does not survive a failure in here: it frees twice, or runs in circles. */
int
seccomp_load(scmp_filter_ctx filter)
{
	static void *real_seccomp_load;
	int got;

	fail_inside++;
	got = REAL(seccomp_load)(filter);
	fail_inside--;
	return got;
}

WRAP(CURL *, curl_easy_init, (void), (), FAIL_CURL, NULL)
WRAP(CURLM *, curl_multi_init, (void), (), FAIL_CURL, NULL)
WRAP(CURLU *, curl_url, (void), (), FAIL_CURL, NULL)
WRAP(CURLUcode, curl_url_set, (CURLU * u, CURLUPart what, const char *part, unsigned flags),
    (u, what, part, flags), FAIL_CURL, CURLUE_OUT_OF_MEMORY)
WRAP(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),
    (list, text), FAIL_CURL, NULL)
WRAP(CURLMcode, curl_multi_add_handle, (CURLM * m, CURL *easy), (m, easy), FAIL_CURL,
    CURLM_OUT_OF_MEMORY)
WRAP(CURLMcode, curl_multi_assign, (CURLM * m, curl_socket_t fd, void *data), (m, fd, data),
    FAIL_CURL, CURLM_OUT_OF_MEMORY)
WRAP(CURLMcode, curl_multi_socket_action, (CURLM * m, curl_socket_t fd, int what, int *running),
    (m, fd, what, running), FAIL_CURL, CURLM_OUT_OF_MEMORY)

#undef curl_easy_setopt
CURLcode
curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
	static void *real_curl_easy_setopt;
	va_list rest;
	void *argument;

	va_start(rest, option);
	argument = va_arg(rest, void *); /* pointers, longs and offsets alike */
	va_end(rest);
	if (fail_plain(FAIL_CURL, "curl_easy_setopt"))
		return CURLE_OUT_OF_MEMORY;
	return REAL(curl_easy_setopt)(easy, option, argument);
}

WRAP(struct event *, event_new,
    (struct event_base * base, int fd, short what, event_callback_fn f, void *arg),
    (base, fd, what, f, arg), FAIL_EVENT, NULL)
WRAP(int, event_add, (struct event * event, const struct timeval *after), (event, after),
    FAIL_EVENT, -1)
WRAP(int, event_base_once,
    (struct event_base * base, int fd, short what, event_callback_fn f, void *arg,
	const struct timeval *after),
    (base, fd, what, f, arg, after), FAIL_EVENT, -1)
WRAP(int, evbuffer_add, (struct evbuffer * buffer, const void *data, size_t len),
    (buffer, data, len), FAIL_EVENT, -1)
WRAP(unsigned char *, evbuffer_pullup, (struct evbuffer * buffer, ev_ssize_t len), (buffer, len),
    FAIL_EVENT, NULL)
WRAP(int, evbuffer_reserve_space,
    (struct evbuffer * buffer, ev_ssize_t len, struct evbuffer_iovec *v, int n),
    (buffer, len, v, n), FAIL_EVENT, -1)

int
evbuffer_add_printf(struct evbuffer *buffer, const char *format, ...)
{
	va_list rest;
	int got;

	if (fail_plain(FAIL_EVENT, "evbuffer_add_printf"))
		return -1;
	va_start(rest, format);
	got = evbuffer_add_vprintf(buffer, format, rest);
	va_end(rest);
	return got;
}
