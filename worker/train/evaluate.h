/*
 * Looking at what the model says, with the adapter on or off; nothing is changed.
 */
#ifndef WORKER_TRAIN_EVALUATE_H
#define WORKER_TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/train/trainer.h"

struct trainer_evaluation {
	double loss; /* as struct trainer_result has them */
	uint64_t input_tokens, supervised_tokens;
};

/*
 * The loss that a step over these datums would tell, without dropout, to the bit: the same passes
 * over the same micro-batches, the same order of sums. sums (count): for each datum the sum of log
 * p over its supervised tokens that have a predecessor, in double. Where logp is not NULL, the
 * single values as well, one datum's after the other's, batch_datum_rows of each. adapter off: the
 * base model's, by passes that are cut in the same way. 0, or -1 with *r: 422 as trainer_step, for
 * a loss that is not finite naming the first datum.
 */
int trainer_evaluate(struct trainer *t, const struct datum *const *datums, size_t count,
    bool adapter, double *sums, double *logp, struct trainer_evaluation *out, struct refusal *r);

/* out (count, V), host: the logits after each token of one sequence. 0, or -1 with *r. */
int trainer_logits(struct trainer *t, const int32_t *ids, size_t count, bool adapter, float *out,
    struct refusal *r);

#endif
