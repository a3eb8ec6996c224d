/*
 * The state artifact, format stepd-state/1: one safetensors file that holds all a session needs to
 * go on as if it had never stopped. Tensors adapter.<key>, exp_avg.<key>, exp_avg_sq.<key> in
 * float32, key as in adapter.h; the rest is in __metadata__, all strings.
 */
#ifndef WORKER_ARTIFACT_STATE_H
#define WORKER_ARTIFACT_STATE_H

#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/artifact/artifact.h"

struct adapter;

/* The optimizer's settings and the place in the run. Strings are views. */
struct state {
	struct artifact_identity identity;
	double weight_decay, beta1, beta2, epsilon, max_grad_norm;
	const char *compute; /* "f32" or "bf16": what the products took */
	uint64_t step;	     /* updates done */
	uint64_t tokens_seen, rows_consumed;
	double loss; /* of the last step; NaN before the first */
};

/* What a state brings back. */
struct state_loaded {
	uint64_t step, tokens_seen, rows_consumed;
	double loss;
	char compute[8]; /* the session goes on with the same */
};

/* Writes the state to fd in one pass. param, exp_avg, exp_avg_sq: host, (adapter->size) floats.
   0 with *sum, or -1 with *r; 422 naming the tensor if a value is not finite (nothing written). */
int state_write(int fd, const struct state *s, const struct adapter *a, const float *param,
    const float *exp_avg, const float *exp_avg_sq, struct artifact_sum *sum, struct refusal *r);

/* Reads a state from fd, trusting nothing: exactly the keys and shapes of the adapter, every value
   finite, every field there and of its form, and identity and optimizer settings equal to those of
   *want (its step, tokens_seen, rows_consumed, loss and compute are not looked at). Everything is
   checked before the first float is copied. param NULL: only checked, nothing is copied. 0, or -1
   with *r (422 naming the field or tensor). */
int state_read(int fd, const struct state *want, const struct adapter *a, float *param,
    float *exp_avg, float *exp_avg_sq, struct state_loaded *out, struct refusal *r);

#endif
