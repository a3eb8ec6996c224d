/*
 * Methods of values: Python's str, list, tuple, dict, int, float and range, and those of loop,
 * cycler and joiner. Methods that would change a value exist only to be refused, as in Jinja's
 * sandbox.
 */
#ifndef WORKER_JINJA_JINJA_METHOD_H
#define WORKER_JINJA_JINJA_METHOD_H

#include "worker/jinja/jinja_value.h"

struct jinja_method_entry {
	const char *name;
	/* NULL: Python has it, this interpreter does not; refused when called. */
	struct jinja_value (*call)(
	    struct jinja *j, struct jinja_value self, const struct jinja_args *args);
	bool unsafe;
};
struct jinja_method {
	const struct jinja_method_entry *entry;
	struct jinja_value self;
};

/* The method of that name that a value has, or NULL. */
const struct jinja_method_entry *jinja_method_find(
    struct jinja_value self, struct jinja_value name);
/* Whether dicts have a method of that name, so that it hides the key. */
bool jinja_dict_has_method(struct jinja_value name);

/* By file; each ends with an entry without a name. */
extern const struct jinja_method_entry jinja_text_methods[], jinja_case_methods[],
    jinja_split_methods[], jinja_layout_methods[];

/* Strips white space, or the characters of `chars`; side is -1 (left), 1 (right) or 0 (both). */
struct jinja_value jinja_strip(
    struct jinja *j, struct jinja_value s, struct jinja_value chars, int side);
/* str.replace; count -1: all. */
struct jinja_value jinja_replace(struct jinja *j, struct jinja_value s, struct jinja_value old,
    struct jinja_value new, int64_t count);
/* str.splitlines */
const struct jinja_list *jinja_split_lines(struct jinja *j, struct jinja_value s, bool keep);
/* Pads to a width in characters; side as above, the text's. */
struct jinja_value jinja_pad(struct jinja *j, struct jinja_value s, int64_t width, const char *fill,
    size_t fill_len, int side);
/* capitalize, title, upper, ...: Markup stays Markup. */
struct jinja_value jinja_upper_text(struct jinja *j, struct jinja_value s);
struct jinja_value jinja_lower_text(struct jinja *j, struct jinja_value s);
struct jinja_value jinja_capitalize(struct jinja *j, struct jinja_value s);
bool jinja_is_upper_text(struct jinja *j, struct jinja_value s, bool upper);

#endif
