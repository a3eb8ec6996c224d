/*
 * Scopes: which variable each name means. Jinja decides this when it compiles (idtracking.py), not
 * when it runs, and templates can tell the difference, so this is the same analysis: a name that is
 * assigned later in its scope is undefined before, loops and blocks have scopes of their own, `if`
 * has none, macros see the scope they were written in. Each variable becomes a slot of the frame of
 * its function. Filters and tests are looked up on the way.
 */
#ifndef WORKER_JINJA_JINJA_SCOPE_H
#define WORKER_JINJA_JINJA_SCOPE_H

#include "worker/jinja/jinja_ast.h"

/* Turns a template's statements into its root function. Fails with a line (JINJA_SYNTAX). */
struct jinja_function *jinja_scope_resolve(struct jinja *j, struct jinja_nodes body);

#endif
