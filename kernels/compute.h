/*
 * Which type of operands this device multiplies faster: what `auto` means.
 */
#ifndef KERNELS_COMPUTE_H
#define KERNELS_COMPUTE_H

#include "kernels/ops.h"

/* Speed of op_linear's product in each type, in GFLOP/s. */
struct compute_speed {
	double f32, bf16; /* bf16: 0 where the device does not multiply it itself */
};

/* Measures both, in turn, for some milliseconds on (rows, outputs, inputs), which should look like
   the model's largest layer. options->compute does not matter. Opens and closes contexts of its
   own: before op_open, not beside it. Errors as op_open's, reason in op_last_error(NULL). */
enum op_status compute_measure(struct compute_speed *out, const struct op_options *options,
    size_t rows, size_t outputs, size_t inputs);

/* OP_BF16 if it is at least 1.3 times as fast: below that its rounding is not worth it. */
enum op_dtype compute_choose(const struct compute_speed *speed);

#endif
