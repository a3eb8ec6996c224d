/*
 * The host side of a micro-batch: sequences packed one after another with their boundaries,
 * positions that restart, and the rows whose next token is supervised. What lies behind a
 * sequence's last supervised token reaches no loss and is left out, and so is that token itself:
 * it is predicted, and predicts nothing.
 */
#ifndef WORKER_TRAIN_BATCH_H
#define WORKER_TRAIN_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"
#include "worker/model/activations.h"
#include "worker/model/pass.h"
#include "ipc/refusal.h"
#include "worker/text/datum.h"

struct batch {
	int32_t *ids, *position; /* (tokens) */
	int32_t *rows, *targets; /* (row_count) */
	float *coefficient;	 /* (row_count) */
	uint32_t *start;	 /* (sequences + 1) */
	size_t tokens, row_count, sequences;
	size_t token_capacity, row_capacity, sequence_capacity;
};

/* Tokens of a datum that reach its loss, and supervised tokens that have a token before them.
   Either both are 0 or none is. */
size_t batch_datum_tokens(const struct datum *d);
size_t batch_datum_rows(const struct datum *d);

/* Makes room and empties the batch; what is large enough stays where it is. 0, or -1 with *r. */
int batch_begin(struct batch *b, size_t tokens, size_t rows, size_t sequences, struct refusal *r);
void batch_fini(struct batch *b);

/* Appends one sequence of tokens that stand at `position`, `position` + 1, ...; no row of it is
   supervised yet. There has to be room. */
void batch_add_tokens(struct batch *b, const int32_t *ids, size_t count, size_t position);
/* Supervises a row of the batch: the token that should follow it, and the weight of its -log p. */
void batch_add_row(struct batch *b, size_t row, int32_t target, float coefficient);
/* Appends a datum: its tokens and all its rows. */
void batch_add(struct batch *b, const struct datum *d, float coefficient);

/* Copies the batch to the device, into acts, and describes it there. *out holds views into b. */
enum op_status batch_upload(const struct batch *b, struct op_context *ops,
    const struct activations *acts, struct pass_batch *out);

#endif
