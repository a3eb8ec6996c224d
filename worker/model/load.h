/*
 * The weights' way from the mapped files to the device: all threads read and convert what the
 * device then takes in one copy, on a GPU while the threads fill the next buffer (op_stage). Rows
 * that lie one after another on the device go together, whichever tensors they are of.
 */
#ifndef WORKER_MODEL_LOAD_H
#define WORKER_MODEL_LOAD_H

#include <stddef.h>

#include "ipc/refusal.h"
#include "kernels/ops.h"
#include "worker/files/files.h"

enum { LOAD_NAME_SIZE = 256 };

/* One tensor to read: where it comes from and where it goes. */
struct load_tensor {
	char name[LOAD_NAME_SIZE];
	size_t rows, cols;
	enum op_dtype dtype;
	size_t offset; /* bytes into the memory; they ascend, and no two overlap */
};

/* Reads all of them into the device's memory. 0, or -1 with *r: 422 for what is wrong with the
   files, 507 where memory does not suffice. */
int load_tensors(struct op_context *ops, void *memory, const struct model_files *files,
    const struct load_tensor *tensors, size_t count, struct refusal *r);

#endif
