/*
 * Values as text: Python's str() and repr(), JSON as transformers' tojson writes it, HTML escaping.
 */
#ifndef WORKER_JINJA_JINJA_REPR_H
#define WORKER_JINJA_JINJA_REPR_H

#include "worker/jinja/jinja_value.h"

void jinja_put_str(struct jinja *j, struct jinja_value v);
void jinja_put_repr(struct jinja *j, struct jinja_value v);
void jinja_put_float(struct jinja *j, double v);
struct jinja_value jinja_to_str(struct jinja *j, struct jinja_value v);
struct jinja_value jinja_to_repr(struct jinja *j, struct jinja_value v);
/* soft_str: strings stay as they are, Markup too; other values become their str(). */
struct jinja_value jinja_soft_str(struct jinja *j, struct jinja_value v);
/* escape(v): Markup. */
struct jinja_value jinja_escape(struct jinja *j, struct jinja_value v);

/* json.dumps. indent NULL: one line. */
struct jinja_json {
	const char *indent; /* of one level */
	size_t indent_len;
	struct jinja_value item, key; /* separators */
	bool ascii, sort;
};
void jinja_put_json(struct jinja *j, struct jinja_value v, const struct jinja_json *how);

#endif
