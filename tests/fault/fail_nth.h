/*
 * What a test and the library that fails calls (fail_nth.c) share: a page of memory in a file that
 * FAIL_NTH names. The test writes what is to fail and arms it; the library counts and says whether
 * it fired.
 */
#ifndef TESTS_FAULT_FAIL_NTH_H
#define TESTS_FAULT_FAIL_NTH_H

#include <stdatomic.h>
#include <stdint.h>

/* X(NAME, what fails): the test knows them by their place here, from 1 on. */
#define FAIL_CLASS_LIST(X)                                                                         \
	X(MEMORY, "malloc and its kin")                                                            \
	X(WRITE, "write and its kin, also by half")                                                \
	X(READ, "read and its kin")                                                                \
	X(SYNC, "fsync and its kin")                                                               \
	X(NAME, "rename, link, unlink, mkdir")                                                     \
	X(MAP, "mmap")                                                                             \
	X(SEND, "sendmsg, send")                                                                   \
	X(OPEN, "whatever makes a descriptor")                                                     \
	X(SIZE, "ftruncate, fallocate")                                                            \
	X(PROCESS, "fork, threads, wait")                                                          \
	X(STORE, "LMDB")                                                                           \
	X(CURL, "libcurl")                                                                         \
	X(EVENT, "libevent")

#define FAIL_ENUM(name, text) FAIL_##name,
enum fail_class { FAIL_NOTHING, FAIL_CLASS_LIST(FAIL_ENUM) FAIL_CLASSES };
#undef FAIL_ENUM

/* All fields are 32 bits, in this order; error -1 = a short write where there can be one. */
struct fail_page {
	atomic_uint class;   /* enum fail_class; armed unless FAIL_NOTHING */
	atomic_uint nth;     /* the call that fails, from 1 on */
	atomic_uint forever; /* and all after it */
	atomic_int error;
	atomic_uint calls; /* of the class since it was armed */
	atomic_uint fired;
	atomic_int live; /* allocations that are not freed */
	char name[36];	 /* of the call that failed last */
};

#endif
