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

/* Where a call came from. */
struct fail_trace {
	uint64_t chain; /* a hash of its return addresses, each as an offset in its module */
	uint64_t site;	/* the nearest of them in the program itself, as an offset in it; or 0 */
};

enum { FAIL_TRACES = 1 << 18 };

/* Fields of 32 bits, in this order; error -1 = a short write where there can be one. */
struct fail_page {
	atomic_uint class;   /* enum fail_class; armed unless FAIL_NOTHING */
	atomic_uint nth;     /* the call that fails, from 1 on */
	atomic_uint forever; /* and all after it */
	atomic_int error;
	atomic_uint calls; /* of the class since it was armed */
	atomic_uint fired;
	atomic_int live; /* allocations that are not freed */
	char name[36];	 /* of the call that failed last */
	/* From here on as they are aligned: at 64, 80, 84, 88, then 96 + 24 n. */
	struct fail_trace met;	/* the first call that failed */
	atomic_uint tracing;	/* calls of every class are traced, and none fails */
	atomic_uint traced;	/* how many; those beyond the table are counted only */
	_Atomic uint64_t chain; /* only calls from this chain count; 0: all */
	struct fail_call {
		struct fail_trace from;
		uint64_t class;
	} traces[FAIL_TRACES];
};

#endif
