/*
 * Python's two ways to format text: "%s" % x and "{}".format(x).
 */
#ifndef WORKER_JINJA_JINJA_FORMAT_H
#define WORKER_JINJA_JINJA_FORMAT_H

#include "worker/jinja/jinja_value.h"

/* format % value: a tuple gives several, a dict names. */
struct jinja_value jinja_percent(
    struct jinja *j, struct jinja_value format, struct jinja_value value);
/* format.format(*args, **kwargs); map: format_map's dict, or NULL. */
struct jinja_value jinja_format(struct jinja *j, struct jinja_value format,
    const struct jinja_args *args, const struct jinja_value *map);

/* What both share: sign, width, precision and so on of one field. */
struct jinja_spec {
	uint32_t fill;	/* character, 0: none given */
	char align;	/* < > = ^ or 0 */
	char sign;	/* + space - or 0 */
	bool alternate; /* # */
	bool zero;
	char group;	      /* , _ or 0 */
	int width, precision; /* precision -1: none */
	char type;	      /* 0: none */
};
/* Puts out a number or a text by its spec. */
void jinja_put_number(struct jinja *j, struct jinja_value v, const struct jinja_spec *spec);
void jinja_put_text(struct jinja *j, struct jinja_value s, const struct jinja_spec *spec);

#endif
