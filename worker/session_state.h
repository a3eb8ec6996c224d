/*
 * What a session is made of; for the files session*.c alone.
 */
#ifndef WORKER_SESSION_STATE_H
#define WORKER_SESSION_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/ops.h"
#include "worker/files/files.h"
#include "worker/session.h"
#include "worker/text/datum_store.h"
#include "worker/text/render.h"
#include "worker/text/template.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/artifact/artifact.h"
#include "worker/artifact/state.h"
#include "worker/train/trainer.h"

struct session {
	/* As the client asked; strings are owned. */
	char *id, *base_model, *model_revision, *target_modules;
	uint32_t rank;
	uint64_t seed, maximum_datum_tokens;
	struct trainer_options options;
	bool compute_auto;
	int threads;

	struct model_files *files;
	struct tokenizer *tokenizer;
	struct chat_template *template;
	struct datum_store *datums;
	struct op_context *ops;
	struct trainer *trainer;

	/* The place in the run, beside the trainer's step. */
	uint64_t tokens_seen, rows_consumed;
	double loss;	 /* of the last step; NaN before the first */
	char sha256[65]; /* of the last artifact written */
};

/* The session's number format: "f32" or "bf16". */
const char *session_compute(const struct session *s);
/* Opens the backend and the trainer, with the products in `compute`; replaces those there are. */
int session_start(struct session *s, enum op_dtype compute, struct refusal *r);
/* Digest of the base's weights, lower-case hex; computed on first use. */
int session_digest(const struct session *s, char hex[65], struct refusal *r);
/* The datums that a sealed blob names (u32 count, wire strings), in its order; the caller frees
 *datums. 0, or -1 with *r: 422, one is not known. */
int session_find_datums(const struct session *s, int ids, const struct datum ***datums,
    size_t *count, struct refusal *r);

#endif
