/*
 * What templates find ready: filters, tests, global functions, and how such functions take their
 * arguments. Tables live in jinja_filters.c, jinja_tests.c and jinja_globals.c.
 */
#ifndef WORKER_JINJA_JINJA_BUILTIN_H
#define WORKER_JINJA_JINJA_BUILTIN_H

#include "worker/jinja/jinja_value.h"

typedef struct jinja_value jinja_filter_function(
    struct jinja *j, struct jinja_value v, const struct jinja_args *args);
struct jinja_filter {
	const char *name;
	jinja_filter_function *run;
};
/* The entry, or NULL. */
const struct jinja_filter *jinja_filter_find(struct jinja_value name);
/* Whether Jinja has a filter of that name that is not supported here. */
bool jinja_filter_refused(struct jinja_value name);

struct jinja_test {
	const char *name;
	bool (*run)(struct jinja *j, struct jinja_value v, const struct jinja_args *args);
};
const struct jinja_test *jinja_test_find(struct jinja_value name);

struct jinja_builtin {
	const char *name;
	struct jinja_value (*call)(struct jinja *j, const struct jinja_args *args);
};
/* Adds the global functions to the variables of a rendering. */
void jinja_globals_add(struct jinja *j, struct jinja_dict *context);

/* Spreads arguments over `count` names in their order: out[i] is MISSING where none was given.
   Fails on too many, unknown or double ones, and where one of the first `required` is missing.
   names NULL: no keywords. */
void jinja_bind(struct jinja *j, const char *function, const struct jinja_args *args,
    const char *const *names, size_t count, size_t required, struct jinja_value *out);
/* A bound argument that must be a string, or an integer; the default where it is missing. */
struct jinja_value jinja_arg_string(struct jinja *j, struct jinja_value v, const char *otherwise);
int64_t jinja_arg_int(struct jinja *j, struct jinja_value v, int64_t otherwise);
bool jinja_arg_bool(struct jinja_value v, bool otherwise);

/* More filters, by file. */
extern const struct jinja_filter jinja_text_filters[], jinja_sequence_filters[],
    jinja_lazy_filters[], jinja_number_filters[];

#endif
