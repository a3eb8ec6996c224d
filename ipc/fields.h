/*
 * Reading one object of a request, field by field, as Pydantic reads a model: every fault is found,
 * fields first in the order they are asked for, then each unknown key. An object is valid if
 * fields_close says so; checks across fields come after it.
 *
 * A reader returns true and sets *out if the field is there with a valid value. Otherwise *out
 * keeps what it had: the default, where the field is absent or null and may be; anything, after a
 * fault. Strings are views into the document, NUL-terminated.
 */
#ifndef IPC_FIELDS_H
#define IPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/fault.h"
#include "ipc/json.h"

enum { FIELDS_MAX = 24 };

enum need {
	REQUIRED,
	OPTIONAL, /* may be absent; null is a wrong type */
	NULLABLE, /* null is the same as absent */
};

struct fields {
	struct faults *faults;
	const struct place *place;
	struct json object;
	const char *known[FIELDS_MAX];
	size_t count;
	bool valid;
};

/* False with a fault if value is no object. */
bool fields_open(struct fields *s, struct faults *f, const struct place *place, struct json value);
/* Finds unknown keys. True if the object and everything read of it is valid. */
bool fields_close(struct fields *s);
/* Adds a fault at a field, or at the object itself (key NULL). */
void fields_fault(struct fields *s, const char *key, const char *type, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The field's value as it is; none if absent, or null and may be. Every reader begins with it. */
struct json fields_value(struct fields *s, const char *key, enum need need);

/* Lengths in Unicode characters. */
bool fields_string(
    struct fields *s, const char *key, enum need need, size_t min, size_t max, const char **out);
/* A string of exactly count lower-case hex digits. */
bool fields_hex(struct fields *s, const char *key, enum need need, size_t count, const char **out);
/* One of count strings: its number. */
bool fields_choice(struct fields *s, const char *key, enum need need, const char *const *choices,
    size_t count, unsigned *out);
bool fields_bool(struct fields *s, const char *key, enum need need, bool *out);

struct integer_range {
	int64_t min, max;
	bool above; /* min itself is too small; the fault then says greater_than */
};
bool fields_integer(struct fields *s, const char *key, enum need need,
    const struct integer_range *range, int64_t *out);

struct number_range {
	double min, max;   /* max may be INFINITY: the number must still be finite */
	bool above, below; /* the end itself is outside */
};
bool fields_number(struct fields *s, const char *key, enum need need,
    const struct number_range *range, double *out);

/* An array of min to max valid elements. element judges one and adds its faults at `at`. */
struct element_rule {
	size_t min, max;
	bool (*element)(
	    struct faults *f, const struct place *at, struct json value, const void *arg);
	const void *arg;
};
bool fields_list(struct fields *s, const char *key, enum need need, const struct element_rule *rule,
    struct json *out);

/* A judge of elements: a string; arg is a struct string_range, or NULL for any length. */
struct string_range {
	size_t min, max;
};
bool element_string(struct faults *f, const struct place *at, struct json value, const void *arg);

#endif
