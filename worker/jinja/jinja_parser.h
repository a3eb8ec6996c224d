/*
 * The parser: tokens to a syntax tree, by the grammar of Jinja 3.1 with loop controls and
 * {% generation %}. What templates of one file have no use for (include, import, extends, recursive
 * loops) is refused by its name. jinja_statement.c has the statements,
 * jinja_expression.c operators and primaries, jinja_postfix.c what follows a primary.
 */
#ifndef WORKER_JINJA_JINJA_PARSER_H
#define WORKER_JINJA_JINJA_PARSER_H

#include "worker/jinja/jinja_ast.h"
#include "worker/jinja/jinja_lexer.h"

struct jinja_parser {
	struct jinja *j;
	const struct jinja_token *at; /* the current token; the last one is TOKEN_EOF */
	unsigned depth;		      /* of this parser's own recursion */
	const char *const *ends;      /* tags that the innermost open block waits for */
	const char *open;	      /* its name */
};

/* The statements of a whole template. Fails with a line (JINJA_SYNTAX). */
void jinja_parse(struct jinja *j, const struct jinja_tokens *tokens, struct jinja_nodes *out);

/* Between the two halves of the parser. */
_Noreturn void jinja_parse_fail(struct jinja_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_at(const struct jinja_parser *p, enum jinja_token_type type);
bool jinja_at_name(const struct jinja_parser *p, const char *name);
const struct jinja_token *jinja_next(struct jinja_parser *p);
bool jinja_skip_if(struct jinja_parser *p, enum jinja_token_type type);
bool jinja_skip_name(struct jinja_parser *p, const char *name);
const struct jinja_token *jinja_expect(struct jinja_parser *p, enum jinja_token_type type);
void jinja_expect_name(struct jinja_parser *p, const char *name);
void jinja_descend(struct jinja_parser *p);

/* A node with these children (NULL is allowed), a child of a list, a constant. */
struct jinja_node *jinja_parse_make(struct jinja_parser *p, enum jinja_node_kind kind,
    uint32_t line, struct jinja_node *a, struct jinja_node *b);
void jinja_parse_add(struct jinja_parser *p, struct jinja_node *parent, struct jinja_node *child);
struct jinja_node *jinja_parse_constant(
    struct jinja_parser *p, uint32_t line, struct jinja_value v);

/* A name, a literal or something in brackets; what may follow it: .name [x] (x), and then | and is.
 */
struct jinja_node *jinja_parse_primary(struct jinja_parser *p, bool with_namespace);
struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, struct jinja_node *node);
struct jinja_node *jinja_parse_filter_expression(struct jinja_parser *p, struct jinja_node *node);
struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool conditions);
/* A tuple without parentheses, or one expression. end: a name that ends it, or NULL. */
struct jinja_node *jinja_parse_tuple(
    struct jinja_parser *p, bool conditions, const char *end, bool parentheses);
/* What can be assigned to: a name, a tuple of names, with_namespace also ns.attribute. */
struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *end, bool with_namespace);
struct jinja_node *jinja_parse_name(struct jinja_parser *p);
/* Filters applied to node (NULL: a filter block). inline_first: no pipe before the first. */
struct jinja_node *jinja_parse_filters(
    struct jinja_parser *p, struct jinja_node *node, bool inline_first);

#endif
