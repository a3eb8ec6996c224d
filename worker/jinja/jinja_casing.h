/*
 * Unicode tables beside utf8proc's. To write them again: for every code point c for which
 * len(chr(c).upper()) > 1 or len(chr(c).title()) > 1 one row of both; and the ranges where
 * isdigit() is not Nd, isnumeric() not Nd, Nl, No, islower() not Ll, isupper() not Lu.
 */
#ifndef WORKER_JINJA_JINJA_CASING_H
#define WORKER_JINJA_JINJA_CASING_H

#include <stdbool.h>
#include <stdint.h>

struct jinja_casing {
	uint32_t from;
	uint32_t upper[3], title[3]; /* ends at 0 */
};
/* The row of a character with a long upper or title form, or NULL. */
const struct jinja_casing *jinja_casing_find(uint32_t c);

enum jinja_kind_extra {
	JINJA_EXTRA_DIGIT,
	JINJA_EXTRA_NUMERIC,
	JINJA_EXTRA_LOWER,
	JINJA_EXTRA_UPPER,
};
/* Whether c is of that kind although its general category does not say so. */
bool jinja_kind_extra(enum jinja_kind_extra kind, uint32_t c);

#endif
