#include <string.h>

#include "worker/jinja/jinja_parser.h"

static struct jinja_node *parse_unary(struct jinja_parser *p, bool with_filter);

struct jinja_node *
jinja_parse_make(struct jinja_parser *p, enum jinja_node_kind kind, uint32_t line,
    struct jinja_node *a, struct jinja_node *b)
{
	struct jinja_node *node = jinja_node_new(p->j, kind, line);

	node->a = jinja_adopt(p->j, node, a);
	node->b = jinja_adopt(p->j, node, b);
	return node;
}

void
jinja_parse_add(struct jinja_parser *p, struct jinja_node *parent, struct jinja_node *child)
{
	jinja_adopt(p->j, parent, child);
	jinja_nodes_add(p->j, &parent->list, child);
}

struct jinja_node *
jinja_parse_constant(struct jinja_parser *p, uint32_t line, struct jinja_value v)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_CONST, line);

	node->value = v;
	return node;
}

/* a ** b, then * / // %, then ~, then + -: each level left associative, as Jinja has them. */
static struct jinja_node *
parse_pow(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_unary(p, true);

	while (jinja_skip_if(p, TOKEN_POW)) {
		left = jinja_parse_make(p, NODE_BINARY, line, left, parse_unary(p, true));
		left->op = 'p';
	}
	return left;
}

static struct jinja_node *
parse_product(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_pow(p);

	for (;;) {
		char op = jinja_at(p, TOKEN_MUL)	? '*'
			  : jinja_at(p, TOKEN_DIV)	? '/'
			  : jinja_at(p, TOKEN_FLOORDIV) ? 'f'
			  : jinja_at(p, TOKEN_MOD)	? '%'
							: 0;

		if (op == 0)
			return left;
		jinja_next(p);
		left = jinja_parse_make(p, NODE_BINARY, line, left, parse_pow(p));
		left->op = op;
	}
}

static struct jinja_node *
parse_concat(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *first = parse_product(p), *node;

	if (!jinja_at(p, TOKEN_TILDE))
		return first;
	node = jinja_node_new(p->j, NODE_CONCAT, line);
	jinja_parse_add(p, node, first);
	while (jinja_skip_if(p, TOKEN_TILDE))
		jinja_parse_add(p, node, parse_product(p));
	return node;
}

static struct jinja_node *
parse_sum(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_concat(p);

	while (jinja_at(p, TOKEN_ADD) || jinja_at(p, TOKEN_SUB)) {
		char op = jinja_next(p)->type == TOKEN_ADD ? '+' : '-';

		left = jinja_parse_make(p, NODE_BINARY, line, left, parse_concat(p));
		left->op = op;
	}
	return left;
}

/* The comparison at the cursor, or 0; moves past it. */
static char
comparison(struct jinja_parser *p)
{
	static const struct {
		enum jinja_token_type type;
		char op;
	} table[] = {{TOKEN_EQ, '='}, {TOKEN_NE, '!'}, {TOKEN_LT, '<'}, {TOKEN_LTEQ, 'l'},
	    {TOKEN_GT, '>'}, {TOKEN_GTEQ, 'g'}};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (jinja_skip_if(p, table[i].type))
			return table[i].op;
	if (jinja_skip_name(p, "in"))
		return 'i';
	if (jinja_at_name(p, "not") && p->at[1].type == TOKEN_NAME &&
	    jinja_string_is(p->at[1].value, "in")) {
		jinja_next(p);
		jinja_next(p);
		return 'n';
	}
	return 0;
}

static struct jinja_node *
parse_compare(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_sum(p), *node = NULL, *operand;
	char op;

	while ((op = comparison(p)) != 0) {
		if (node == NULL)
			node = jinja_parse_make(p, NODE_COMPARE, line, left, NULL);
		operand = jinja_parse_make(p, NODE_COMPARISON, p->at->line, NULL, parse_sum(p));
		operand->op = op;
		jinja_parse_add(p, node, operand);
	}
	return node != NULL ? node : left;
}

static struct jinja_node *
parse_not(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *node;

	if (!jinja_skip_name(p, "not"))
		return parse_compare(p);
	jinja_descend(p);
	node = jinja_parse_make(p, NODE_NOT, line, parse_not(p), NULL);
	p->depth--;
	return node;
}

static struct jinja_node *
parse_and(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_not(p);

	while (jinja_skip_name(p, "and"))
		left = jinja_parse_make(p, NODE_AND, line, left, parse_not(p));
	return left;
}

static struct jinja_node *
parse_or(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *left = parse_and(p);

	while (jinja_skip_name(p, "or"))
		left = jinja_parse_make(p, NODE_OR, line, left, parse_and(p));
	return left;
}

struct jinja_node *
jinja_parse_expression(struct jinja_parser *p, bool conditions)
{
	uint32_t line = p->at->line;
	struct jinja_node *node, *then;

	jinja_descend(p);
	node = parse_or(p);
	while (conditions && jinja_skip_name(p, "if")) {
		then = node;
		node = jinja_parse_make(p, NODE_CONDITION, line, parse_or(p), then);
		if (jinja_skip_name(p, "else"))
			node->c = jinja_adopt(p->j, node, jinja_parse_expression(p, true));
		line = p->at->line;
	}
	p->depth--;
	return node;
}

static struct jinja_node *
parse_unary(struct jinja_parser *p, bool with_filter)
{
	uint32_t line = p->at->line;
	struct jinja_node *node;

	jinja_descend(p);
	if (jinja_skip_if(p, TOKEN_SUB))
		node = jinja_parse_make(p, NODE_NEG, line, parse_unary(p, false), NULL);
	else if (jinja_skip_if(p, TOKEN_ADD))
		node = jinja_parse_make(p, NODE_POS, line, parse_unary(p, false), NULL);
	else
		node = jinja_parse_primary(p, false);
	node = jinja_parse_postfix(p, node);
	if (with_filter)
		node = jinja_parse_filter_expression(p, node);
	p->depth--;
	return node;
}

static struct jinja_node *
parse_name_or_word(struct jinja_parser *p, bool with_namespace)
{
	const struct jinja_token *token = jinja_next(p);
	struct jinja_node *node;

	if (jinja_string_is(token->value, "true") || jinja_string_is(token->value, "True"))
		return jinja_parse_constant(p, token->line, jinja_bool(true));
	if (jinja_string_is(token->value, "false") || jinja_string_is(token->value, "False"))
		return jinja_parse_constant(p, token->line, jinja_bool(false));
	if (jinja_string_is(token->value, "none") || jinja_string_is(token->value, "None"))
		return jinja_parse_constant(p, token->line, jinja_none());
	if (with_namespace && jinja_skip_if(p, TOKEN_DOT)) {
		node = jinja_node_new(p->j, NODE_NSREF, token->line);
		node->attr = jinja_expect(p, TOKEN_NAME)->value;
	} else {
		node = jinja_node_new(p->j, NODE_NAME, token->line);
	}
	node->value = token->value;
	return node;
}

/* "a" 'b' is one string. */
static struct jinja_node *
parse_strings(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_value text = jinja_next(p)->value;

	while (jinja_at(p, TOKEN_STRING)) {
		struct jinja_value more = jinja_next(p)->value;
		char *both = jinja_alloc(p->j, (size_t)text.len + more.len);

		jinja_pay(p->j, (size_t)text.len + more.len);
		memcpy(both, text.text, text.len);
		memcpy(both + text.len, more.text, more.len);
		text = jinja_string(both, (size_t)text.len + more.len);
	}
	return jinja_parse_constant(p, line, text);
}

/* [a, b] or {a: b} */
static struct jinja_node *
parse_display(struct jinja_parser *p, enum jinja_node_kind kind, enum jinja_token_type end)
{
	struct jinja_node *node = jinja_node_new(p->j, kind, jinja_next(p)->line);

	while (!jinja_at(p, end)) {
		if (node->list.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		if (jinja_at(p, end))
			break;
		jinja_parse_add(p, node, jinja_parse_expression(p, true));
		if (kind == NODE_DICT) {
			jinja_expect(p, TOKEN_COLON);
			jinja_parse_add(p, node, jinja_parse_expression(p, true));
		}
	}
	jinja_expect(p, end);
	return node;
}

struct jinja_node *
jinja_parse_primary(struct jinja_parser *p, bool with_namespace)
{
	const struct jinja_token *token = p->at;
	struct jinja_node *node;

	switch (token->type) {
	case TOKEN_NAME:
		return parse_name_or_word(p, with_namespace);
	case TOKEN_STRING:
		return parse_strings(p);
	case TOKEN_INTEGER:
	case TOKEN_FLOAT:
		jinja_next(p);
		return jinja_parse_constant(p, token->line, token->value);
	case TOKEN_LPAREN:
		jinja_next(p);
		node = jinja_parse_tuple(p, true, NULL, true);
		jinja_expect(p, TOKEN_RPAREN);
		return node;
	case TOKEN_LBRACKET:
		return parse_display(p, NODE_LIST, TOKEN_RBRACKET);
	case TOKEN_LBRACE:
		return parse_display(p, NODE_DICT, TOKEN_RBRACE);
	default:
		jinja_parse_fail(p, token->line, "unexpected '%s'", jinja_token_name(token->type));
	}
}

/* simplified: only primaries, as in the targets of assignments. */
static struct jinja_node *
parse_items(struct jinja_parser *p, bool simplified, bool conditions, const char *end,
    bool parentheses, bool with_namespace)
{
	struct jinja_node *tuple = jinja_node_new(p->j, NODE_TUPLE, p->at->line);
	bool comma = false;

	jinja_descend(p);
	for (;;) {
		if (tuple->list.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		if (jinja_at(p, TOKEN_VARIABLE_END) || jinja_at(p, TOKEN_BLOCK_END) ||
		    jinja_at(p, TOKEN_RPAREN) || (end != NULL && jinja_at_name(p, end)))
			break;
		jinja_parse_add(p, tuple,
		    simplified ? jinja_parse_primary(p, with_namespace)
			       : jinja_parse_expression(p, conditions));
		if (!jinja_at(p, TOKEN_COMMA))
			break;
		comma = true;
	}
	p->depth--;
	if (!comma && tuple->list.count > 0)
		return tuple->list.at[0];
	if (!comma && !parentheses)
		jinja_parse_fail(p, p->at->line, "Expected an expression, got '%s'",
		    jinja_token_name(p->at->type));
	return tuple;
}

struct jinja_node *
jinja_parse_tuple(struct jinja_parser *p, bool conditions, const char *end, bool parentheses)
{
	return parse_items(p, false, conditions, end, parentheses, false);
}

static void
check_target(struct jinja_parser *p, struct jinja_node *node)
{
	if (node->kind == NODE_TUPLE) {
		for (size_t i = 0; i < node->list.count; i++)
			check_target(p, node->list.at[i]);
	} else if (node->kind != NODE_NAME && node->kind != NODE_NSREF) {
		jinja_parse_fail(p, node->line, "can't assign to %s",
		    node->kind == NODE_CONST ? "a constant" : "an expression");
	}
	node->store = true;
}

struct jinja_node *
jinja_parse_target(struct jinja_parser *p, const char *end, bool with_namespace)
{
	struct jinja_node *node = parse_items(p, true, true, end, false, with_namespace);

	check_target(p, node);
	return node;
}

struct jinja_node *
jinja_parse_name(struct jinja_parser *p)
{
	const struct jinja_token *token = jinja_expect(p, TOKEN_NAME);
	struct jinja_node *node = jinja_node_new(p->j, NODE_NAME, token->line);
	static const char *const words[] = {"true", "false", "none", "True", "False", "None"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (jinja_string_is(token->value, words[i]))
			jinja_parse_fail(p, token->line, "can't assign to '%s'", words[i]);
	node->value = token->value;
	node->store = true;
	return node;
}
