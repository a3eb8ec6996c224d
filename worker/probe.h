/*
 * `stepd-worker --probe`: the devices this worker could compute on, as one line of JSON, each with
 * the proof that it computes: a product whose result is compared with the host's. Run as a child by
 * whoever wants to know, so that a driver that hangs or crashes takes nothing with it.
 */
#ifndef WORKER_PROBE_H
#define WORKER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/ops.h"

/* Prints {"backend", "sandbox", "driver_loaded", "devices": [{"index", "name", "uuid",
   "pci_bus_id", "memory_bytes", "memory_free_bytes", "compute_capability", "driver", "runtime",
   "verified", "held", "error"}], "error"}. Those of STEPD_GPUS_HELD (UUIDs) are named and not
   touched. It enters the sandbox of a worker (STEPD_SANDBOX), with all GPUs in it, and computes
   twice: before and after the sandbox is closed. The exit status: 0 unless memory ran out; no
   device is an answer. */
int probe_print(void);

/* Whether passes are to be CUDA graphs (STEPD_CUDA_GRAPHS). */
bool probe_wants_graphs(void);

/* The product on device `index`, as it comes and, unless they are off, as a CUDA graph: whatever a
   driver does for these for the first time is done then. OP_OK and "", or why it is not to be
   trusted: the errors of ops, or OP_DEVICE_FAULT where it came out wrong. */
enum op_status probe_device(int index, char *reason, size_t size);

/* Says to the sandbox which GPU the environment has chosen (CUDA_VISIBLE_DEVICES by UUID,
   STEPD_GPU_BUS); where this worker needs none, nothing. */
void probe_choose_gpu(void);

#endif
