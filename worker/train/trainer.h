/*
 * A session's maths: the frozen model on the device, the adapter's values, gradients and AdamW's
 * moments (float32, all allocated when it opens), the step counter, and the workspace. step.h
 * trains, evaluate.h scores, generate.h continues a text. One thread uses a trainer at a time.
 */
#ifndef WORKER_TRAIN_TRAINER_H
#define WORKER_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"
#include "worker/files/files.h"
#include "worker/model/model.h"
#include "worker/model/pass.h"
#include "ipc/refusal.h"
#include "worker/text/datum.h"
#include "worker/train/adapter.h"
#include "worker/train/workspace.h"

struct trainer_options {
	size_t rank;
	double alpha;		    /* 0 = 2 * rank */
	double dropout;		    /* on what enters A; 0 <= dropout < 1 */
	const char *target_modules; /* "all-linear", or names joined by commas; NULL = all-linear */
	uint64_t seed;
	double weight_decay, beta1, beta2, epsilon;
	double max_grad_norm; /* 0 = no clipping */
	size_t micro_batch;   /* tokens of one, if it is more than a datum; 0 = choose */
	size_t datum_tokens;  /* of the longest datum; 0 = not told */
	size_t memory_limit;  /* bytes that all of this may take on the CPU; 0 = no limit */
	size_t device_limit;  /* the same on a GPU; 0 = what is free there */
	bool graphs;	      /* a GPU's passes that come again are CUDA graphs: kernels/repeat.h */
};

struct trainer {
	struct op_context *ops;
	struct model *model;
	struct adapter adapter;
	/* Defaults filled in, micro_batch as chosen; target_modules is not kept. */
	struct trainer_options options;
	/* Device, (adapter.size) each. grad: of the last step, before clipping. */
	float *param, *grad, *exp_avg, *exp_avg_sq;
	struct pass_lora *lora; /* (L, LINEAR_COUNT): views into param and grad */
	struct memory_plan plan;
	struct workspace work;
	uint64_t step; /* updates done */
};

/* Plans the memory, loads the model and starts a fresh adapter at step 0. ops and files must
   outlive the trainer. 0, or -1 with *r; *out is NULL then. */
int trainer_open(struct trainer **out, struct op_context *ops, const struct model_files *files,
    const struct trainer_options *options, struct refusal *r);
/* NULL and half-made ones are allowed. */
void trainer_free(struct trainer *t);

const struct adapter *trainer_adapter(const struct trainer *t);
uint64_t trainer_step_count(const struct trainer *t);
void trainer_set_step_count(struct trainer *t, uint64_t step);

/* Copies to and from host buffers of (adapter.size) floats; NULL: that one is left out. A session
   that is resumed sets all three and the step count. 0, or -1 with *r (a device fault). */
int trainer_get(
    const struct trainer *t, float *param, float *exp_avg, float *exp_avg_sq, struct refusal *r);
int trainer_set(struct trainer *t, const float *param, const float *exp_avg,
    const float *exp_avg_sq, struct refusal *r);
/* The gradients of the last trainer_step that got as far. */
int trainer_get_gradient(const struct trainer *t, float *grad, struct refusal *r);

/* The pass over the workspace's batch, without dropout. */
struct pass trainer_pass(const struct trainer *t, bool adapter);
/* What a pass needs memory for, but for its tokens and rows. */
struct activations_shape trainer_shape(const struct trainer *t, bool adapter);
/* Refuses datums that hold a token the model does not have. */
int trainer_check_tokens(
    const struct trainer *t, const int32_t *ids, size_t count, struct refusal *r);

#endif
