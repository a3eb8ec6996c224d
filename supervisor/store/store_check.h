/*
 * Whether the file of an LMDB environment is whole, before LMDB maps it: a page that the disk
 * changed would make LMDB read or write outside of it, and end the process by a signal. Everything
 * that the newest change refers to is looked at: each page once, its nodes inside it, keys in
 * order, no page used twice or both used and free. What records hold is not judged.
 *
 * The format is that of LMDB 0.9 (MDB_DATA_VERSION 1) on this machine; of another one, and of a
 * file that is no LMDB environment, LMDB itself tells.
 */
#ifndef SUPERVISOR_STORE_STORE_CHECK_H
#define SUPERVISOR_STORE_STORE_CHECK_H

enum { STORE_CHECK_REASON = 96 };

/* Reads from fd. 0; -EBADMSG with a reason that follows "is damaged: "; -EINVAL, -EISDIR of what is
   no file; or -errno. */
int store_check(int fd, char reason[STORE_CHECK_REASON]);

#endif
