/*
 * Which device nodes of /dev are those of one GPU: the driver numbers them by itself, and its files
 * in /proc say which GPU has which number.
 */
#ifndef WORKER_DRIVER_NODES_H
#define WORKER_DRIVER_NODES_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/refusal.h"

enum { DRIVER_GPUS_MAX = 32, DRIVER_CAPS_MAX = 64, DRIVER_BUS_MAX = 16 };

struct driver_nodes {
	struct driver_gpu {
		int minor;		  /* /dev/nvidiaN */
		char bus[DRIVER_BUS_MAX]; /* where it is: "0000:3b:00.0" */
	} gpus[DRIVER_GPUS_MAX];
	size_t count;
	int caps[DRIVER_CAPS_MAX]; /* /dev/nvidia-caps/nvidia-capN */
	size_t cap_count;
};

/* Which device a worker is for. */
struct driver_choice {
	const char *uuid; /* as CUDA_VISIBLE_DEVICES has it: "GPU-...", "MIG-..."; NULL: all */
	const char *bus;  /* of its GPU, or NULL: found by its UUID */
};

/* The nodes of the chosen one below `root` ("" outside of tests): a GPU's own, or those of a part
   of a GPU (MIG), which libnvidia-ml.so.1 tells. A machine whose driver tells of no GPU has none:
   0 with nothing. 0, or -1 with *r (503: it is not there). Before the first thread. */
int driver_nodes_find(struct driver_nodes *out, const char *root,
    const struct driver_choice *choice, struct refusal *r);

/* Is the UUID that CUDA tells of what is at `bus` that of a part of a GPU? It is if the GPU there
   is known to have another one. */
bool driver_nodes_is_part(const char *root, const char *uuid, const char *bus);

#endif
