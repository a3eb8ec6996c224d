/*
 * The session that bench_step measures: a model of random weights, sequences that are supervised as
 * a whole, rank 8 on all linear layers. What fails here ends the program with what there is to say.
 */
#ifndef TESTS_BENCH_BENCH_SESSION_H
#define TESTS_BENCH_BENCH_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/bench/roofline_models.h"
#include "tests/bench/roofline_ops.h"
#include "worker/train/step.h"

enum { RANK = 8, MOST = 4 };

struct bench {
	const struct roof_model *model;
	enum op_dtype compute;
	size_t tokens;
	struct op_context *ops;
	struct model_files *files;
	struct trainer *t;
	const char *device;
	struct roof_rates rates; /* measured */
	struct datum datums[MOST];
	const struct datum *list[MOST];
	int passed, failed;
};

/* Of a clock that only goes forward. */
double bench_seconds(void);
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends the program by what `ops` (or NULL) says, unless OP_OK. */
void bench_check(enum op_status status, const struct op_context *ops);
/* Counts what holds and what does not. */
void bench_tell(struct bench *b, bool holds, const char *what);

/* Makes a folder in `parent` for the model's files; it goes with the program. */
void bench_folder(const char *parent);
/* MOST sequences of b->tokens that are in the pass. */
void bench_datums(struct bench *b);
/* Makes the model in that folder and opens b->files and b->t; ends the program, as skipped, where
   there is no room. */
void bench_load(struct bench *b);
/* One step of the first `count` sequences. */
struct trainer_result bench_step(struct bench *b, size_t count);
/* Back to these parameters and moments, at step 0. */
void bench_set(struct bench *b, const float *param, const float *zeros);

#endif
