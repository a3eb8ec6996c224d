#include "worker/model/memory_plan.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/model/model.h"

static size_t
sum(size_t a, size_t b)
{
	size_t n;

	return __builtin_add_overflow(a, b, &n) ? SIZE_MAX : n;
}

size_t
memory_pass(struct activations *a, const struct memory_backend *backend,
    const struct model_config *c, const struct activations_shape *shape)
{
	return sum(activations_cut(a, c, shape, NULL), memory_scratch(backend, c, shape));
}

static struct activations_shape
shape_of(const struct memory_request *q, size_t tokens, bool recompute)
{
	return (struct activations_shape){
	    .tokens = tokens,
	    .rows = tokens,
	    .rank = q->rank,
	    .backward = true,
	    .recompute = recompute,
	    .dropout = q->dropout,
	    .act = q->compute,
	};
}

static size_t
pass_of(const struct memory_request *q, struct activations *a, size_t tokens, bool recompute)
{
	const struct activations_shape shape = shape_of(q, tokens, recompute);

	return memory_pass(a, &q->backend, q->config, &shape);
}

/* Does a pass of that many tokens stay within `bytes`, and its activations within `bound`? */
static bool
fits(const struct memory_request *q, struct activations *a, size_t tokens, bool recompute,
    size_t bytes, size_t bound)
{
	const struct activations_shape shape = shape_of(q, tokens, recompute);

	return pass_of(q, a, tokens, recompute) <= bytes &&
	       activations_cut(a, q->config, &shape, NULL) <= bound;
}

/* The most tokens up to `most` that fit, 0 where not one does: needs grow with the tokens. */
static size_t
largest(const struct memory_request *q, struct activations *a, size_t most, bool recompute,
    size_t bytes, size_t bound)
{
	size_t low = 0, high = most;

	while (low < high) {
		const size_t middle = low + (high - low + 1) / 2;

		if (fits(q, a, middle, recompute, bytes, bound))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static int
refuse_need(const struct memory_plan *p, const struct memory_request *q, struct activations *a,
    size_t tokens, struct refusal *r)
{
	const size_t most = largest(q, a, tokens - 1, true, p->pass, SIZE_MAX);
	char rest[120];

	if (most == 0)
		snprintf(rest, sizeof(rest), "not even a datum of 1 token fits");
	else
		snprintf(
		    rest, sizeof(rest), "the largest maximum_datum_tokens that fits is %zu", most);
	return refuse(r, 507,
	    "the session needs %zu bytes (%zu of weights, %zu of adapter, gradients and moments, "
	    "%zu for a datum of %zu tokens) and %zu are free: %s",
	    p->total, p->weights, p->adapter + p->gradients + p->moments,
	    p->activations + p->scratch, tokens, q->limit, rest);
}

static int
plan(
    struct memory_plan *p, const struct memory_request *q, struct activations *a, struct refusal *r)
{
	const size_t tokens = q->tokens != 0 ? q->tokens : 1;
	struct activations_shape shape;
	size_t fixed;

	p->weights = model_memory(q->config, q->compute);
	if (p->weights == SIZE_MAX || q->adapter > SIZE_MAX / (8 * sizeof(float)))
		return refuse(r, 507, "the model is too large for this machine");
	p->adapter = p->gradients = q->adapter * sizeof(float);
	p->moments = 2 * p->adapter;
	fixed = sum(p->weights, p->adapter + p->gradients + p->moments);
	p->pass = SIZE_MAX;
	if (q->limit != 0)
		p->pass = q->limit > fixed ? q->limit - fixed : 0;
	p->recompute = pass_of(q, a, tokens, false) > p->pass;
	shape = shape_of(q, tokens, p->recompute);
	p->activations = activations_cut(a, q->config, &shape, NULL);
	p->scratch = memory_scratch(&q->backend, q->config, &shape);
	p->total = sum(fixed, sum(p->activations, p->scratch));
	if (sum(p->activations, p->scratch) > p->pass)
		return refuse_need(p, q, a, tokens, r);
	p->micro_batch = largest(q, a, UINT32_MAX, false, p->pass, q->bound);
	return 0;
}

int
memory_plan_make(struct memory_plan *p, const struct memory_request *q, struct refusal *r)
{
	struct activations a = {0};
	int rc;

	*p = (struct memory_plan){0};
	a.layers = calloc(q->config->layer_count + 1, sizeof(*a.layers));
	if (a.layers == NULL)
		return refuse(r, 507, "no memory for a session");
	rc = plan(p, q, &a, r);
	free(a.layers);
	return rc;
}
