/*
 * The table of one scope while a template is compiled: Symbols of Jinja's idtracking.py. A name
 * gets a slot of its function; what the slot starts with is decided by what came first, a load or a
 * store, here or in the scopes around.
 */
#ifndef WORKER_JINJA_JINJA_SYMBOLS_H
#define WORKER_JINJA_JINJA_SYMBOLS_H

#include "worker/jinja/jinja_ast.h"

/* A function of the template: its slots so far. */
struct jinja_slots {
	uint32_t depth; /* 0: the root */
	struct jinja_slot {
		uint32_t level;
		struct jinja_value name;
	} * at;
	size_t count, size;
};

struct jinja_symbol {
	struct jinja_value name;
	uint32_t depth, slot; /* of the function, in it */
};

struct jinja_symbol_load {
	enum { SYMBOL_PARAMETER, SYMBOL_MISSING, SYMBOL_CONTEXT, SYMBOL_ALIAS } kind;
	uint32_t slot;
	struct jinja_value name;
	struct jinja_symbol from;
};

struct jinja_symbols {
	struct jinja_symbols *parent;
	struct jinja_slots *slots;
	uint32_t level;
	struct jinja_symbol *refs;
	size_t ref_count, ref_size;
	struct jinja_symbol_load *loads;
	size_t load_count, load_size;
	struct jinja_value *stores;
	size_t store_count, store_size;
};

struct jinja_symbols *jinja_symbols_new(
    struct jinja *j, struct jinja_symbols *parent, struct jinja_slots *slots);
/* A name is a parameter (its slot). */
uint32_t jinja_symbols_parameter(struct jinja *j, struct jinja_symbols *s, struct jinja_value name);
/* Records what a node and its children do, without entering scopes of their own. */
void jinja_symbols_visit(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node);
void jinja_symbols_visit_all(
    struct jinja *j, struct jinja_symbols *s, const struct jinja_nodes *nodes);
/* Names of a target become parameters: those of for and with. */
void jinja_symbols_target(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node);
/* Where the name lives as seen from here; a name never recorded is read from the context. */
struct jinja_ref jinja_symbols_ref(
    struct jinja *j, struct jinja_symbols *s, struct jinja_value name);
/* What entering and leaving the scope does. */
void jinja_symbols_scope(struct jinja *j, const struct jinja_symbols *s, struct jinja_scope *out);

#endif
