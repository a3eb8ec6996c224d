/*
 * The syntax tree. One node type; which fields a kind uses stands beside it. Nodes live in the
 * arena of the compiled template and are not written after jinja_scope_resolve.
 */
#ifndef WORKER_JINJA_JINJA_AST_H
#define WORKER_JINJA_JINJA_AST_H

#include "worker/jinja/jinja_value.h"

/* X(name): a, b, c are child nodes, list and more are lists of nodes, value a constant or name */
#define JINJA_NODE_LIST(X)                                                                         \
	/* expressions */                                                                          \
	X(CONST)      /* value */                                                                  \
	X(NAME)	      /* value; ref after resolving */                                             \
	X(NSREF)      /* value.attr as a target: value, attr; ref */                               \
	X(TUPLE)      /* list */                                                                   \
	X(LIST)	      /* list */                                                                   \
	X(DICT)	      /* list: key, value, key, value ... */                                       \
	X(BINARY)     /* a op b: one of + - * / f (floor) % p (power) */                           \
	X(AND)	      /* a, b */                                                                   \
	X(OR)	      /* a, b */                                                                   \
	X(NOT)	      /* a */                                                                      \
	X(NEG)	      /* a */                                                                      \
	X(POS)	      /* a */                                                                      \
	X(CONCAT)     /* list */                                                                   \
	X(COMPARE)    /* a, list of COMPARISON */                                                  \
	X(COMPARISON) /* op b: = ! < l > g i n */                                                  \
	X(CONDITION)  /* b if a else c; c may be NULL */                                           \
	X(GETATTR)    /* a.value */                                                                \
	X(GETITEM)    /* a[b] */                                                                   \
	X(SLICE)      /* a[start:stop:step]: list of three, NULL where left out */                 \
	X(CALL)	      /* a(args) */                                                                \
	X(FILTER)     /* a|value(args); a NULL in a filter block */                                \
	X(TEST)	      /* a is value(args) */                                                       \
	/* statements */                                                                           \
	X(TEXT)		/* value */                                                                \
	X(OUTPUT)	/* a */                                                                    \
	X(IF)		/* a, body, more: elifs (IF), other: else */                               \
	X(FOR)		/* a in b if c: body, other: else; loop_ref, function of the test */       \
	X(SET)		/* a = b */                                                                \
	X(SET_BLOCK)	/* a | b (FILTER or NULL): body */                                         \
	X(MACRO)	/* value(parameters): body; ref */                                         \
	X(CALL_BLOCK)	/* parameters, call b: body */                                             \
	X(GENERATION)	/* body */                                                                 \
	X(FILTER_BLOCK) /* b: body */                                                              \
	X(WITH)		/* list of targets, more: values, body */                                  \
	X(AUTOESCAPE)	/* a: body */                                                              \
	X(BLOCK)	/* body */                                                                 \
	X(BREAK) X(CONTINUE)
#define JINJA_NODE_ENUM(name) NODE_##name,
enum jinja_node_kind { JINJA_NODE_LIST(JINJA_NODE_ENUM) };
#undef JINJA_NODE_ENUM

struct jinja_nodes {
	struct jinja_node **at;
	size_t count, size;
};

/* Where a variable lives: the frame `hops` functions out, and its slot there. */
struct jinja_ref {
	uint32_t hops, slot;
};

/* What a slot starts with when its scope is entered. */
enum jinja_load_kind { LOAD_MISSING, LOAD_CONTEXT, LOAD_ALIAS };
struct jinja_load {
	enum jinja_load_kind kind;
	struct jinja_ref from;	 /* LOAD_ALIAS */
	struct jinja_value name; /* LOAD_CONTEXT */
	uint32_t slot;
};
/* A scope of variables inside a function: loaded on entry, emptied on leaving. */
struct jinja_scope {
	struct jinja_load *loads;
	size_t count;
	uint32_t *slots; /* all that are emptied */
	size_t slot_count;
};

/* The part of a macro, a call block or the test of a for that is called. */
struct jinja_function {
	struct jinja_value name;		 /* NONE: anonymous */
	struct jinja_nodes parameters, defaults; /* NAMEs; of the last parameters */
	bool takes_caller, takes_kwargs, takes_varargs, explicit_caller;
	uint32_t caller, kwargs, varargs; /* slots */
	uint32_t slots;			  /* of a frame */
	struct jinja_scope scope;
	struct jinja_nodes body;
};

struct jinja_arguments {
	struct jinja_nodes list, keywords; /* keywords: values */
	struct jinja_value *names;	   /* of the keywords */
	struct jinja_node *dyn_args, *dyn_kwargs;
};

struct jinja_node {
	uint8_t kind; /* enum jinja_node_kind */
	char op;
	bool store;    /* a NAME or TUPLE that is a target */
	bool extended; /* a FOR with the loop variable */
	uint16_t depth;
	uint32_t line;
	struct jinja_value value, attr;
	struct jinja_ref ref, loop_ref;
	struct jinja_node *a, *b, *c;
	struct jinja_nodes list, more, body, other;
	struct jinja_arguments *args;
	struct jinja_function *function;
	struct jinja_scope scope, other_scope; /* of body; of a for's else */
	const void
	    *entry; /* of the table of filters or tests; NULL: unknown, refused when reached */
};

struct jinja_node *jinja_node_new(struct jinja *j, enum jinja_node_kind kind, uint32_t line);
void jinja_nodes_add(struct jinja *j, struct jinja_nodes *nodes, struct jinja_node *node);
/* Hangs a child below a node (NULL is allowed) and refuses what is nested too deeply. */
struct jinja_node *jinja_adopt(
    struct jinja *j, struct jinja_node *parent, struct jinja_node *child);

#endif
