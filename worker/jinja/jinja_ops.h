/*
 * Operators: arithmetic, `in`, subscripts, attributes, slices, lengths and sorting, as Python and
 * the sandbox of Jinja have them.
 */
#ifndef WORKER_JINJA_JINJA_OPS_H
#define WORKER_JINJA_JINJA_OPS_H

#include "worker/jinja/jinja_value.h"

/* op is one of + - * / f (floor division) % p (power). */
struct jinja_value jinja_binary(
    struct jinja *j, char op, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_negate(struct jinja *j, struct jinja_value v, bool keep);
struct jinja_value jinja_concat(struct jinja *j, struct jinja_value a, struct jinja_value b);
/* a / b of numbers. */
struct jinja_value jinja_divide(
    struct jinja *j, char op, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_power(struct jinja *j, struct jinja_value a, struct jinja_value b);

bool jinja_contains(struct jinja *j, struct jinja_value item, struct jinja_value in);
/* -1: no len(). */
int64_t jinja_length(struct jinja *j, struct jinja_value v);
/* obj.name: the attribute first, then the item; undefined where there is none. */
struct jinja_value jinja_getattr(struct jinja *j, struct jinja_value obj, struct jinja_value name);
/* obj[key]: the item first. */
struct jinja_value jinja_getitem(struct jinja *j, struct jinja_value obj, struct jinja_value key);
/* The attribute alone: false where there is none. */
bool jinja_attribute(
    struct jinja *j, struct jinja_value obj, struct jinja_value name, struct jinja_value *out);
/* obj[start:stop:step]; NONE or MISSING where left out. */
struct jinja_value jinja_slice(struct jinja *j, struct jinja_value obj, struct jinja_value start,
    struct jinja_value stop, struct jinja_value step);

/* sorted(v, key, reverse), stable. key NULL: the items themselves. */
typedef struct jinja_value jinja_key_function(
    struct jinja *j, struct jinja_value item, void *state);
const struct jinja_list *jinja_sorted(
    struct jinja *j, struct jinja_value v, jinja_key_function *key, void *state, bool reverse);

/* The attribute argument of filters: "a.b.0" to its parts. */
const struct jinja_list *jinja_path(struct jinja *j, struct jinja_value attribute);
/* Follows a path; `otherwise` (MISSING: none) stands in for what is undefined. */
struct jinja_value jinja_follow(struct jinja *j, struct jinja_value item,
    const struct jinja_list *path, struct jinja_value otherwise);

#endif
