/*
 * Which calls fail, with which errors, and in which order they are tried: each place in the code
 * once before any twice.
 */
#ifndef CUDA_EMU_FAILING_PLAN_H
#define CUDA_EMU_FAILING_PLAN_H

#include "tests/cuda-emu/failing_process.h"

struct plan {
	struct run *cases;
	uint64_t *place; /* of each: where in the code, and whether it is told there */
	size_t count, room;
	uint64_t random; /* the seed, and what became of it */
};

/* Every call of this operation, with each error of its class. */
void plan_operation(struct plan *p, const struct operation *operation);
/* In the order of p->random, and the first of each place before all others. Returns how many places
   there are. */
size_t plan_order(struct plan *p);
void plan_fini(struct plan *p);

#endif
