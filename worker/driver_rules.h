/*
 * What NVIDIA's driver needs of a sandbox beyond what a worker on the CPU does: the files that it
 * opens, and the system calls that it makes, each with its reason. The driver is closed and its
 * maker keeps no such list: this is what others have seen it do. What it lacks on a machine,
 * `make check-gpu` tells by name.
 */
#ifndef WORKER_DRIVER_RULES_H
#define WORKER_DRIVER_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/driver_nodes.h"
#include "worker/sandbox_landlock.h"

enum { DRIVER_RULES_MAX = 192, DRIVER_PATH_MAX = 160 };

struct driver_rules {
	struct landlock_rule rules[DRIVER_RULES_MAX];
	char paths[DRIVER_RULES_MAX][DRIVER_PATH_MAX];
	size_t count;
};

/* The files for computing on these nodes alone, below `root` ("" outside of tests). `library`: one
   of the driver's libraries, or NULL: the others are in its folder, or, where it is a link, in that
   of the file. Paths too long are left out. */
void driver_rules_list(struct driver_rules *out, const char *root, const struct driver_nodes *nodes,
    const char *library);

/* System calls, by their names; NULL at the end. driver_starting: only until it has started. */
extern const char *const driver_calls[], *const driver_starting[];

/* Calls that are made with some arguments only: each of `args` with a mask has that value under it.
   name NULL at the end. */
struct driver_call {
	const char *name;
	struct {
		unsigned number;
		uint64_t mask, value;
	} args[2];
	bool starting; /* only until it has started */
};
extern const struct driver_call driver_arguments[];

#endif
