/*
 * A trainer over a tiny model on disk, and some datums, for the tests of training.
 */
#ifndef TESTS_UNIT_TRAINER_FIXTURE_H
#define TESTS_UNIT_TRAINER_FIXTURE_H

#include <math.h>

#include "tests/unit/test.h"
#include "tests/unit/tiny_model.h"
#include "worker/train/step.h"
#include "worker/train/trainer.h"

enum { DATUMS = 4, LONGEST = 19 };

/* A trainer over a tiny model, and some datums of it. */
struct fixture {
	struct tiny_model tiny;
	struct op_context *ops;
	struct model_files *files;
	struct trainer *t;
	int32_t ids[DATUMS][LONGEST];
	uint8_t supervised[DATUMS][LONGEST];
	struct datum datums[DATUMS];
	const struct datum *list[DATUMS];
};

static const struct trainer_options plain = {
    .rank = 3,
    .seed = 1,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .weight_decay = 0.01,
};

/* Lengths 1 to 19; the second is supervised whole, position 0 too, the third has nothing. */
static inline void
make_datums(struct fixture *f)
{
	static const uint32_t lengths[DATUMS] = {7, LONGEST, 1, 12}, context[DATUMS] = {4, 0, 0, 9};
	uint64_t random = 5;

	for (size_t i = 0; i < DATUMS; i++) {
		struct datum *d = &f->datums[i];

		*d = (struct datum){
		    .length = lengths[i], .ids = f->ids[i], .supervised = f->supervised[i]};
		for (uint32_t t = 0; t < lengths[i]; t++) {
			const double u = (tiny_uniform(&random) + 1) / 2;

			d->ids[t] = (int32_t)(u * (double)f->tiny.vocabulary);
			d->supervised[t] = t >= context[i];
			d->supervised_count += d->supervised[t];
		}
		f->list[i] = d;
	}
}

static inline void
open_trainer(struct fixture *f, const struct trainer_options *o)
{
	struct refusal r = {0};

	if (trainer_open(&f->t, f->ops, f->files, o, &r) != 0) {
		printf("%s\n", r.text);
		abort();
	}
}

static inline void
setup_model(struct fixture *f, const struct tiny_model *tiny, enum op_dtype compute,
    const struct trainer_options *o)
{
	const struct op_options options = {.compute = compute, .threads = 2};
	struct refusal r = {0};

	memset(f, 0, sizeof(*f));
	f->tiny = *tiny;
	tiny_model_write(&f->tiny, 3);
	if (op_open(&f->ops, &options) != OP_OK ||
	    model_files_open(&f->files, f->tiny.path, &r) != 0) {
		printf("%s\n", r.text);
		abort();
	}
	open_trainer(f, o);
	make_datums(f);
}

static inline void
setup(struct fixture *f, enum op_dtype compute, const struct trainer_options *o)
{
	setup_model(f, &tiny_default, compute, o);
}

static inline void
teardown(struct fixture *f)
{
	trainer_free(f->t);
	model_files_free(f->files);
	op_close(f->ops);
	tiny_model_remove(&f->tiny);
}

/* A and B random: a fresh adapter has B = 0, which hides half of the maths. */
static inline float *
random_adapter(struct fixture *f)
{
	const size_t n = trainer_adapter(f->t)->size;
	float *param = malloc(n * sizeof(*param));
	uint64_t random = 11;
	struct refusal r;

	for (size_t i = 0; i < n; i++)
		param[i] = (float)(0.3 * tiny_uniform(&random));
	trainer_set(f->t, param, NULL, NULL, &r);
	return param;
}

static inline struct trainer_result
step(struct fixture *f, double learning_rate)
{
	struct trainer_result result = {0};
	struct refusal r = {0};

	CHECK_MSG(
	    trainer_step(f->t, f->list, DATUMS, learning_rate, &result, &r) == 0, "%s", r.text);
	return result;
}

static inline double
distance(const float *a, const float *b, size_t n)
{
	double difference = 0, norm = 0;

	for (size_t i = 0; i < n; i++) {
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		norm += (double)b[i] * b[i];
	}
	return sqrt(difference / norm);
}

#endif
