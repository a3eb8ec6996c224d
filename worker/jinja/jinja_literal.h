/*
 * Literals of the template language: numbers and strings as Python writes them, and the numbers
 * that the filters int and float read from text.
 */
#ifndef WORKER_JINJA_JINJA_LITERAL_H
#define WORKER_JINJA_JINJA_LITERAL_H

#include "worker/jinja/jinja_value.h"

/* Bytes of the float or integer literal at s[at], or 0. */
size_t jinja_float_length(const char *s, size_t n, size_t at);
size_t jinja_integer_length(const char *s, size_t n, size_t at);
struct jinja_value jinja_float_literal(struct jinja *j, const char *s, size_t n);
struct jinja_value jinja_integer_literal(struct jinja *j, const char *s, size_t n);
/* The inside of a quoted string, escapes resolved. */
struct jinja_value jinja_string_literal(struct jinja *j, const char *s, size_t n);

/* Python's int(text, base) and float(text). false where they raise ValueError. */
bool jinja_parse_int(
    struct jinja *j, const char *s, size_t n, unsigned base, struct jinja_value *out);
bool jinja_parse_float(struct jinja *j, const char *s, size_t n, double *out);

#endif
