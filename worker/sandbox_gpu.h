/*
 * The files of a worker that computes on a GPU: driver_rules.h for the GPU at hand.
 */
#ifndef WORKER_SANDBOX_GPU_H
#define WORKER_SANDBOX_GPU_H

#include "ipc/refusal.h"
#include "worker/driver_nodes.h"
#include "worker/driver_rules.h"

/* Loads the driver's library, where there is one, so that it is known where the others are that it
   may want later. 0, or -1 with *r as driver_nodes_find. Before the first thread. */
int sandbox_gpu_rules(
    struct driver_rules *out, const struct driver_choice *choice, struct refusal *r);

/* Nothing compiled is kept in the user's folder, which cannot be written. */
void sandbox_gpu_environment(void);

#endif
