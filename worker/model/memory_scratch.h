/*
 * What the ops of one pass take for themselves: the backend's areas that grow to what the largest
 * op ever asked for. Written down from kernels/, op by op; a unit test compares it with what the
 * context really holds afterwards, of the CPU and of CUDA.
 *
 * Not in it: what the GEMM library allocates, and on CUDA what is gone from the device's free
 * memory as soon as op_open returns: the driver's share, kernels, cuBLAS' workspace of 4 or 32 MiB.
 */
#ifndef WORKER_MODEL_MEMORY_SCRATCH_H
#define WORKER_MODEL_MEMORY_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/files/config.h"
#include "worker/model/activations.h"

struct memory_backend {
	bool cuda;
	bool native_bf16; /* op_native_bf16: else operands are converted, in a panel */
	size_t threads;	  /* op_threads; the CPU's ops have scratch for each */
};

/* The backend that this program is linked with, as ops was opened. */
struct memory_backend memory_backend_of(const struct op_context *ops);

/* Bytes that a pass of `shape` and any shorter one makes the context hold, its longest sequence as
   long as the whole pass. SIZE_MAX: more than can be. */
size_t memory_scratch(const struct memory_backend *backend, const struct model_config *c,
    const struct activations_shape *shape);

#endif
