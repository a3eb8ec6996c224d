/*
 * Finding the GPUs of this machine that compute in a worker's sandbox, by as many probes as it
 * takes.
 */
#ifndef SUPERVISOR_SESSION_DEVICES_FIND_H
#define SUPERVISOR_SESSION_DEVICES_FIND_H

#include "supervisor/session/probe.h"

struct config;

/* Looks for those that STEPD_DEVICES may mean: all, and each part of a GPU that it names (MIG: a
   program of CUDA's sees one part). One that computes only outside of the sandbox is not verified,
   and its error says that. `held`: UUIDs that sessions have, comma separated, which are not
   touched, or NULL. 0, or -errno with no device, as probe_run; `stop` (or NULL) ends it. Any thread
   may; it takes several times STEPD_READY_TIMEOUT at most. */
int devices_find(
    const struct config *c, const char *held, const atomic_bool *stop, struct devices *out);

#endif
