/*
 * The memory that every request of a session works in: one piece on the device for activations and
 * batch, and the batch's host side. On a GPU it is allocated when the session opens, as the plan
 * says; it grows when a request needs more than was planned, or on a CPU than any before it, and is
 * then kept, so that in steady state nothing is allocated per step. Its content is worth nothing
 * from one request to the next.
 */
#ifndef WORKER_TRAIN_WORKSPACE_H
#define WORKER_TRAIN_WORKSPACE_H

#include <stddef.h>

#include "kernels/ops.h"
#include "worker/model/activations.h"
#include "worker/model/memory_plan.h"
#include "worker/model/model.h"
#include "worker/model/pass.h"
#include "ipc/refusal.h"
#include "worker/text/datum.h"
#include "worker/train/batch.h"

struct workspace {
	const struct model *model;
	struct activations acts;
	struct batch batch;
	struct pass_batch on_device; /* views of both, after workspace_upload */
	void *memory;
	size_t size; /* bytes of memory */
	/* log p of the request's rows so far, host; the last ones may be on their way */
	double *logp;
	size_t rows, row_capacity;
	/* What activations and the ops' scratch may take together, and scratch that is there
	   already: memory_plan.h. */
	struct memory_backend backend;
	size_t pass_most, scratch;
};

/* model must outlive the workspace. 0, or -1 with *r. */
int workspace_init(struct workspace *w, const struct model *model, const struct memory_plan *plan,
    struct refusal *r);
/* Zeroed and half-made ones are allowed. */
void workspace_fini(struct workspace *w);

/* Empties logp, for a request of so many rows. 0, or -1 with *r. */
int workspace_begin(struct workspace *w, size_t rows, struct refusal *r);

/* Makes the activations those of `shape`, and empties the batch for that many tokens, rows and
   sequences. 0, or -1 with *r (507). */
int workspace_fit(struct workspace *w, const struct activations_shape *shape, size_t sequences,
    struct refusal *r);

/*
 * Fills the batch with as many datums from the front as have `most` tokens together, but at least
 * one, and copies it to the device. Where that needs more than pass_most, as many layers are
 * recomputed as have to (activations.h). `shape` says the rest of what the pass needs; its tokens
 * and rows are set. Each row's coefficient is the one given.
 * *taken = how many datums; the batch may still be empty (row_count 0) where none of them has a
 * row. 0, or -1 with *r.
 */
int workspace_take(struct workspace *w, struct activations_shape shape, size_t most,
    const struct datum *const *datums, size_t count, float coefficient, size_t *taken,
    struct refusal *r);
/* Copies the batch to the device. 0, or -1 with *r. */
int workspace_upload(struct workspace *w, struct refusal *r);

#endif
