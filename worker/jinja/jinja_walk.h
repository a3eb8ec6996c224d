/*
 * Questions about parts of a syntax tree, answered by walking them in the order of Jinja's own
 * visitors.
 */
#ifndef WORKER_JINJA_JINJA_WALK_H
#define WORKER_JINJA_JINJA_WALK_H

#include "worker/jinja/jinja_ast.h"

/* Whether `name` is read in these nodes before anything there assigns it. */
bool jinja_reads(struct jinja *j, const struct jinja_nodes *nodes, const char *name);
/* Whether Jinja evaluates an expression when it compiles. */
bool jinja_is_constant(struct jinja *j, const struct jinja_node *node);

#endif
