/*
 * The datums of one request, and what training and evaluating do alike: count them, split them into
 * micro-batches, run the forward pass, add the losses up in their order. So the loss that
 * evaluate.h tells is, bit for bit, the one that step.h would tell at this place without dropout.
 *
 * On a GPU nothing of this waits for the device: what it found is there after the next op_sync. A
 * micro-batch of a shape that was seen before is one launch there (repeat.h).
 */
#ifndef WORKER_TRAIN_REQUEST_H
#define WORKER_TRAIN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/text/datum.h"
#include "worker/train/trainer.h"

struct request {
	const struct datum *const *datums;
	size_t count;
	size_t rows; /* supervised tokens that have a token before them: the denominator */
	uint64_t input_tokens;
	uint64_t supervised_tokens; /* also those at position 0 */
};

/* Counts what the datums hold, and makes room for their log p. 0, or -1 with *r (422): a token that
   the model does not have, or none to learn. */
int request_count(struct request *q, struct trainer *t, struct refusal *r);

/* Fills the workspace with the micro-batch that begins at datum `first`: *taken datums, as many as
   a training pass has memory for. coefficient, of each row, is for the gradient. 0, or -1 with *r.
 */
int request_take(struct trainer *t, const struct request *q, size_t first, float coefficient,
    bool dropout, size_t *taken, struct refusal *r);

/* Forward pass and loss of the micro-batch, which has rows: their log p are appended to the
   workspace's. 0, or -1 with *r (a device fault). */
int request_forward(struct trainer *t, const struct pass *p, struct refusal *r);
/* The same, and the backward pass. */
int request_backward(struct trainer *t, const struct pass *p, struct refusal *r);
/* *sum grows by each -log p of the workspace's rows from `first` on, one after the other. */
void request_add(const struct trainer *t, size_t first, double *sum);

/* Refuses `value`, which is not finite, and names what it comes from: the adapter's first tensor
   that is not finite, or the first output of the pass. `what`: "the loss". Returns -1. */
int request_refuse(const struct trainer *t, const struct pass *p, const char *what, double value,
    struct refusal *r);

#endif
