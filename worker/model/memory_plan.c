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

static size_t
larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t
memory_fit(struct activations *a, const struct memory_backend *backend,
    const struct model_config *c, struct activations_shape *shape, size_t held, size_t bytes)
{
	const size_t scratch = larger(memory_scratch(backend, c, shape), held);
	size_t low = 0, high = shape->backward ? c->layer_count : 0;

	while (low < high) {
		shape->recompute = low + (high - low) / 2;
		if (sum(activations_cut(a, c, shape, NULL), scratch) <= bytes)
			high = shape->recompute;
		else
			low = shape->recompute + 1;
	}
	shape->recompute = low;
	return sum(activations_cut(a, c, shape, NULL), scratch);
}

static struct activations_shape
shape_of(const struct memory_request *q, size_t tokens)
{
	return (struct activations_shape){
	    .tokens = tokens,
	    .rows = tokens,
	    .rank = q->rank,
	    .backward = true,
	    .dropout = q->dropout,
	    .act = q->compute,
	};
}

/* A measure of a pass of that many tokens that grows with them. */
typedef size_t measure(const struct memory_request *q, struct activations *a, size_t tokens);

static size_t
kept_activations(const struct memory_request *q, struct activations *a, size_t tokens)
{
	const struct activations_shape shape = shape_of(q, tokens);

	return activations_cut(a, q->config, &shape, NULL);
}

static size_t
kept(const struct memory_request *q, struct activations *a, size_t tokens)
{
	const struct activations_shape shape = shape_of(q, tokens);

	return sum(activations_cut(a, q->config, &shape, NULL),
	    memory_scratch(&q->backend, q->config, &shape));
}

static size_t
recomputed(const struct memory_request *q, struct activations *a, size_t tokens)
{
	struct activations_shape shape = shape_of(q, tokens);

	return memory_fit(a, &q->backend, q->config, &shape, 0, 0);
}

/* The most tokens up to `most` whose measure is within `bytes`, 0 where not one's is. */
static size_t
largest(
    const struct memory_request *q, struct activations *a, size_t most, measure *need, size_t bytes)
{
	size_t low = 0, high = most;

	while (low < high) {
		const size_t middle = low + (high - low + 1) / 2;

		if (need(q, a, middle) <= bytes)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Tokens of a micro-batch: see the header. A pass of one token fits. */
static size_t
choose(const struct memory_plan *p, const struct memory_request *q, struct activations *a)
{
	const size_t most = p->pass - p->pass / 8; /* somewhat less may be free another time */
	size_t tokens;

	if (!q->backend.cuda) {
		tokens = largest(q, a, UINT32_MAX, kept_activations, MEMORY_CPU_BOUND);
		return larger(1, largest(q, a, tokens, recomputed, p->pass));
	}
	tokens = largest(q, a, MEMORY_ENOUGH_TOKENS, kept, most);
	if (tokens < MEMORY_FEW_TOKENS)
		tokens = largest(q, a, MEMORY_FEW_TOKENS, recomputed, most);
	return larger(1, tokens);
}

static int
refuse_need(const struct memory_plan *p, const struct memory_request *q, struct activations *a,
    size_t tokens, struct refusal *r)
{
	const bool split = q->micro_batch >= tokens;
	const size_t most = split ? 0 : largest(q, a, tokens - 1, recomputed, p->pass);
	char rest[120], margin[80] = "";

	if (split)
		snprintf(rest, sizeof(rest), "the session began with micro-batches of that size");
	else if (most < larger(1, q->micro_batch))
		snprintf(rest, sizeof(rest), "not even a datum of %zu token%s fits",
		    larger(1, q->micro_batch), q->micro_batch > 1 ? "s" : "");
	else
		snprintf(
		    rest, sizeof(rest), "the largest maximum_datum_tokens that fits is %zu", most);
	if (q->margin != 0)
		snprintf(margin, sizeof(margin), " beside %zu for the driver", q->margin);
	return refuse(r, 507,
	    "the session needs %zu bytes (%zu of weights, %zu of adapter, gradients and moments, "
	    "%zu for a %s of %zu tokens) and %zu are free%s: %s",
	    p->total, p->weights, p->adapter + p->gradients + p->moments,
	    p->activations + p->scratch, split ? "micro-batch" : "datum", tokens, q->limit, margin,
	    rest);
}

/* Activations and scratch of the longest pass that is counted. 0, or -1 with *r. */
static int
plan_pass(struct memory_plan *p, const struct memory_request *q, struct activations *a,
    size_t fixed, size_t tokens, struct refusal *r)
{
	struct activations_shape shape = shape_of(q, tokens);
	const size_t need = memory_fit(a, &q->backend, q->config, &shape, 0, p->pass);

	p->recompute = shape.recompute;
	p->activations = activations_cut(a, q->config, &shape, NULL);
	p->scratch = memory_scratch(&q->backend, q->config, &shape);
	p->total = sum(fixed, need);
	return need > p->pass ? refuse_need(p, q, a, tokens, r) : 0;
}

static int
plan(
    struct memory_plan *p, const struct memory_request *q, struct activations *a, struct refusal *r)
{
	const size_t tokens = larger(1, q->tokens);
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
	if (plan_pass(p, q, a, fixed, larger(tokens, q->micro_batch), r) != 0)
		return -1;
	p->micro_batch = q->micro_batch != 0 ? q->micro_batch : choose(p, q, a);
	if (!q->backend.cuda)
		return plan_pass(p, q, a, fixed, tokens, r);
	return plan_pass(p, q, a, fixed, larger(tokens, p->micro_batch), r);
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
	if (rc == 0 && q->backend.cuda) {
		p->graphs = q->limit == 0 ? MEMORY_GRAPHS : q->limit - p->total;
		if (p->graphs > MEMORY_GRAPHS)
			p->graphs = MEMORY_GRAPHS;
	}
	free(a.layers);
	return rc;
}
