/*
 * Kernels with one planted bug each, by what is wrong with them: each file has a table of them for
 * planted.cu.
 */
#ifndef CUDA_EMU_PLANTED_H
#define CUDA_EMU_PLANTED_H

#include <stdio.h>
#include <string.h>

#include "kernels/launch.h"

enum { N = 64 };

struct plan {
	float *out;	 /* (N) on the device; element i has to become i */
	const float *in; /* (4 N): in[i] = i */
	bool bug;
};

struct planted {
	const char *name; /* NULL ends a table */
	void (*run)(const struct plan *p);
};

extern const struct planted planted_memory[], planted_order[], planted_ptx[], planted_host[],
    planted_graphs[];

/* The table planted_<name> of a list of X(name, call), in which p is the plan. */
#define PLANTED_FUNCTION(name, call)                                                               \
	static void planted_##name(const struct plan *p)                                           \
	{                                                                                          \
		call;                                                                              \
	}
#define PLANTED_ROW(name, call) {#name, planted_##name},
#define PLANTED(table, list)                                                                       \
	list(PLANTED_FUNCTION)                                                                     \
	    const struct planted planted_##table[] = {list(PLANTED_ROW){NULL, NULL}};

#endif
