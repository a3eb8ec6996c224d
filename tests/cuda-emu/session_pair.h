/*
 * Two sessions that are given the same, the first without CUDA graphs, the second with
 * (kernels/repeat.h): what every step leaves in them is alike to the byte.
 */
#ifndef CUDA_EMU_SESSION_PAIR_H
#define CUDA_EMU_SESSION_PAIR_H

#include "kernels/repeat.h"
#include "tests/unit/trainer_fixture.h"

enum { PAIR = 2, WHOLE = 64 /* tokens: all datums */ };

/* Datums of a step. */
static const size_t all[] = {0, 1, 2, 3}, fewer[] = {3, 1};

struct pair {
	struct fixture f[PAIR];
	float *values[PAIR]; /* (3, adapter's size) */
	size_t size;
};

static inline void
open_pair(
    struct pair *p, size_t layers, enum op_dtype compute, const struct trainer_options *options)
{
	struct tiny_model deep = tiny_default;

	deep.layers = layers;
	for (int i = 0; i < PAIR; i++) {
		struct trainer_options o = *options;

		o.graphs = i == 1;
		o.datum_tokens = LONGEST;
		o.micro_batch = o.micro_batch != 0 ? o.micro_batch : WHOLE;
		setup_model(&p->f[i], &deep, compute, &o);
		free(random_adapter(&p->f[i]));
		p->size = trainer_adapter(p->f[i].t)->size;
		p->values[i] = malloc(3 * p->size * sizeof(float));
	}
}

static inline void
close_pair(struct pair *p)
{
	for (int i = 0; i < PAIR; i++) {
		CHECK_STR(repeat_trouble(p->f[i].ops), "");
		free(p->values[i]);
		teardown(&p->f[i]);
	}
}

static inline struct repeat_counts
counted(const struct pair *p)
{
	CHECK(repeat_counted(p->f[0].ops).launched == 0);
	return repeat_counted(p->f[1].ops);
}

/* A step of the datums in `order`, in both sessions; afterwards all of them is alike. */
static inline void
step_pair(struct pair *p, const size_t *order, size_t count)
{
	struct trainer_result result[PAIR];
	struct refusal r = {0};

	memset(result, 0, sizeof(result));
	for (int i = 0; i < PAIR; i++) {
		struct fixture *f = &p->f[i];
		const struct datum *list[DATUMS];
		float *v = p->values[i];

		for (size_t n = 0; n < count; n++)
			list[n] = &f->datums[order[n]];
		CHECK_MSG(trainer_step(f->t, list, count, 1e-2, &result[i], &r) == 0, "%s", r.text);
		CHECK(trainer_get(f->t, v, v + p->size, v + 2 * p->size, &r) == 0);
	}
	CHECK_MSG(result[0].loss == result[1].loss, "%a, %a", result[0].loss, result[1].loss);
	CHECK(result[0].gradient_norm == result[1].gradient_norm && result[0].loss > 0);
	CHECK(memcmp(p->values[0], p->values[1], 3 * p->size * sizeof(float)) == 0);
}

#endif
