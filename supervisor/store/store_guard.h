/*
 * LMDB takes a page that is not what it has to be for a mistake of its own, and ends the process.
 * Here it is a disk that lost or changed pages: what was asked for ends with MDB_CORRUPTED instead.
 */
#ifndef SUPERVISOR_STORE_STORE_GUARD_H
#define SUPERVISOR_STORE_STORE_GUARD_H

#include <lmdb.h>

/* For each environment, before it is opened. */
void store_guard_env(MDB_env *env);
/* work(arg), which calls LMDB: what it returns, or MDB_CORRUPTED where LMDB would have ended the
   process; work is then left where it was, so what it holds has to be in *arg. In any thread, also
   within another one. */
int store_guard(int (*work)(void *arg), void *arg);

#endif
