/*
 * Iteration. Generators are lazy, as in Python: a filter such as map or select works when it is
 * drained, may be drained once, is always true and has no length.
 */
#ifndef WORKER_JINJA_JINJA_ITER_H
#define WORKER_JINJA_JINJA_ITER_H

#include "worker/jinja/jinja_value.h"

struct jinja_iterator {
	/* Sets *out and returns true, or returns false at the end. */
	bool (*next)(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out);
	struct jinja_value source; /* what is walked */
	size_t at, end;
	struct jinja_iterator *inner; /* what a generator draws from */
	void *state;		      /* of a generator */
	bool running;		      /* a generator that draws from itself is refused */
};

/* An iterator over a value; fails where Python's iter() does. */
struct jinja_iterator *jinja_iterate(struct jinja *j, struct jinja_value v);
bool jinja_is_iterable(struct jinja_value v);
bool jinja_iterator_next(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out);
/* A new generator over v with that step and state, as a value. */
struct jinja_value jinja_generator(struct jinja *j, struct jinja_value v,
    bool (*next)(struct jinja *, struct jinja_iterator *, struct jinja_value *), void *state);
/* list(v): a new list, or v's own where v is a list. */
const struct jinja_list *jinja_to_list(struct jinja *j, struct jinja_value v);

/* The loop variable: looks one item ahead when asked to. */
struct jinja_loop {
	struct jinja_iterator *iterator;
	struct jinja_value iterable;
	int64_t index0, length; /* length -1: not known yet */
	bool has_after;
	struct jinja_value after, current, before; /* MISSING: none */
	const struct jinja_list *changed;	   /* arguments of the last loop.changed() */
};
struct jinja_loop *jinja_loop_new(
    struct jinja *j, struct jinja_value iterable, struct jinja_iterator *it);
bool jinja_loop_next(struct jinja *j, struct jinja_loop *loop, struct jinja_value *out);
/* An attribute of loop that is no method; false: there is none of that name. */
bool jinja_loop_attribute(
    struct jinja *j, struct jinja_loop *loop, struct jinja_value name, struct jinja_value *out);
int64_t jinja_loop_length(struct jinja *j, struct jinja_loop *loop);

#endif
