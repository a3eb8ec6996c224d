/*
 * Continuing a text greedily: the prompt in one pass, then token by token over a cache of keys and
 * values. To look at, not for serving.
 */
#ifndef WORKER_TRAIN_GENERATE_H
#define WORKER_TRAIN_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/train/trainer.h"

struct generate_options {
	size_t maximum;	     /* tokens to add at most */
	const int32_t *stop; /* ids that end the text: the first one met is the last token given */
	size_t stop_count;
	bool adapter; /* on or off */
};

/* Continues ids (count), count > 0, by the most probable token each time, the lowest id where
   several are. out: room for `maximum`; *out_count = how many. 0, or -1 with *r. */
int trainer_generate(struct trainer *t, const int32_t *ids, size_t count,
    const struct generate_options *options, int32_t *out, size_t *out_count, struct refusal *r);

#endif
