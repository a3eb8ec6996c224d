/*
 * What the wrappers of fail_nth.c and fail_libraries.c are made of.
 */
#ifndef TESTS_FAULT_FAIL_WRAP_H
#define TESTS_FAULT_FAIL_WRAP_H

#include <stdbool.h>

#include "tests/fault/fail_nth.h"

/* A library's own calls of what is wrapped here are part of the one call from outside. */
extern _Thread_local unsigned fail_inside;

/* Is this call the one? Then *error is how it fails. */
bool fail_now(enum fail_class class, const char *name, int *error);
/* The same with errno set; EIO in the place of a short write, where there can be none. */
bool fail_plain(enum fail_class class, const char *name);
/* Where the call under way came from (fail_trace.c). */
void fail_where(struct fail_trace *from);
/* dlsym(RTLD_NEXT), once. */
void *fail_real(void **at, const char *name);

#define REAL(name) ((__typeof__(&name))fail_real(&real_##name, #name))

/* A wrapper: result, name, (parameters), (arguments), class, what a failure returns. */
#define WRAP(result, name, parameters, arguments, class, failure)                                  \
	result name parameters;                                                                    \
	static void *real_##name;                                                                  \
	result name parameters                                                                     \
	{                                                                                          \
		result got;                                                                        \
                                                                                                   \
		if (fail_plain(class, #name))                                                      \
			return failure;                                                            \
		fail_inside += class >= FAIL_STORE;                                                \
		got = REAL(name) arguments;                                                        \
		fail_inside -= class >= FAIL_STORE;                                                \
		return got;                                                                        \
	}

#endif
