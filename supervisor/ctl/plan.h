/*
 * Which rows go into which step: each epoch takes every row once, in the file's order or shuffled
 * by the seed; a step takes a number of rows, or rows up to a number of tokens.
 */
#ifndef SUPERVISOR_CTL_PLAN_H
#define SUPERVISOR_CTL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/ctl/rows.h"

struct plan {
	size_t *order; /* (epochs * rows), row indices; owned */
	size_t *start; /* (steps + 1): step s takes order[start[s]] .. order[start[s+1]-1]; owned */
	size_t steps;
};

struct plan_options {
	size_t epochs;
	size_t batch_size;   /* rows a step, or 0: */
	size_t batch_tokens; /* tokens a step, guessed from the texts (3.5 bytes a token) */
	bool shuffle;
	uint64_t seed;
};

/* The same rows and options give the same plan on every machine. 0 or -ENOMEM. */
int plan_make(struct plan *p, const struct rows *rows, const struct plan_options *o);
void plan_fini(struct plan *p);

#endif
