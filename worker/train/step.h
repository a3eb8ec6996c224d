/*
 * One optimizer step: micro-batches forward and backward, then one update by AdamW.
 */
#ifndef WORKER_TRAIN_STEP_H
#define WORKER_TRAIN_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/train/trainer.h"

struct trainer_result {
	double loss; /* mean of -log p over all supervised tokens that have a predecessor */
	double gradient_norm; /* L2 over the whole adapter, before clipping */
	uint64_t input_tokens;
	uint64_t supervised_tokens; /* also those at position 0 */
	uint64_t step;		    /* after the update */
};

/*
 * Exactly one update over the datums, or nothing changed, bit for bit. The loss is the mean over
 * the request's supervised tokens however it is split into micro-batches. The guard, in this order:
 * loss finite, backward, norm finite, update; what is not finite is named. Returns 0, or -1 with
 * *r: 422 for that and for datums without a token to learn, 507 memory, 503 a device fault.
 */
int trainer_step(struct trainer *t, const struct datum *const *datums, size_t count,
    double learning_rate, struct trainer_result *out, struct refusal *r);

#endif
