/*
 * Evaluation: expressions (jinja_eval.c), calls (jinja_call.c) and statements (jinja_run.c) of a
 * resolved tree, by walking it.
 */
#ifndef WORKER_JINJA_JINJA_CALL_H
#define WORKER_JINJA_JINJA_CALL_H

#include "worker/jinja/jinja_ast.h"

/* The variables of one call of a function. */
struct jinja_frame {
	struct jinja_frame *parent; /* of the function around it in the source */
	struct jinja_value slots[];
};
struct jinja_macro {
	const struct jinja_function *function;
	struct jinja_frame *closure;
};

struct jinja_value jinja_eval(
    struct jinja *j, struct jinja_frame *f, const struct jinja_node *node);
struct jinja_value jinja_call(
    struct jinja *j, struct jinja_value callee, const struct jinja_args *args);
/* Evaluates the arguments of a call; caller (MISSING: none) becomes one more keyword. */
void jinja_eval_args(struct jinja *j, struct jinja_frame *f, const struct jinja_arguments *from,
    struct jinja_value caller, struct jinja_args *out);

/* How statements ended. */
enum jinja_flow { JINJA_ON, JINJA_BREAK, JINJA_CONTINUE };
enum jinja_flow jinja_run(struct jinja *j, struct jinja_frame *f, const struct jinja_nodes *nodes);
struct jinja_frame *jinja_frame_new(
    struct jinja *j, const struct jinja_function *function, struct jinja_frame *parent);
void jinja_scope_enter(struct jinja *j, struct jinja_frame *f, const struct jinja_scope *scope);
void jinja_scope_leave(struct jinja_frame *f, const struct jinja_scope *scope);
struct jinja_value *jinja_slot(struct jinja_frame *f, struct jinja_ref ref);
/* target = v, for names, tuples and attributes of namespaces. */
void jinja_assign(
    struct jinja *j, struct jinja_frame *f, const struct jinja_node *target, struct jinja_value v);

#endif
