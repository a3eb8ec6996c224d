/*
 * `stepd-worker --probe`: the devices this worker could compute on, as one line of JSON, each with
 * the proof that it computes: a product whose result is compared with the host's. Run as a child by
 * whoever wants to know, so that a driver that hangs or crashes takes nothing with it.
 */
#ifndef WORKER_PROBE_H
#define WORKER_PROBE_H

/* Prints {"backend", "devices": [{"index", "name", "uuid", "memory_bytes", "memory_free_bytes",
   "compute_capability", "driver", "runtime", "verified", "error"}], "error"}. The exit status: 0
   unless memory ran out; no device is an answer. */
int probe_print(void);

#endif
