#include <string.h>

#include "worker/jinja/jinja_parser.h"

static struct jinja_arguments *
parse_arguments(struct jinja_parser *p, struct jinja_node *owner)
{
	static const char wrong[] = "invalid syntax for function call expression";
	struct jinja_arguments *args = jinja_alloc(p->j, sizeof(*args));
	struct jinja_value names[64];
	uint32_t line = jinja_expect(p, TOKEN_LPAREN)->line;
	bool first = true;

	while (!jinja_at(p, TOKEN_RPAREN)) {
		if (!first) {
			jinja_expect(p, TOKEN_COMMA);
			if (jinja_at(p, TOKEN_RPAREN))
				break;
		}
		first = false;
		if (args->dyn_kwargs != NULL)
			jinja_parse_fail(p, line, wrong);
		if (jinja_at(p, TOKEN_POW)) {
			jinja_next(p);
			args->dyn_kwargs =
			    jinja_adopt(p->j, owner, jinja_parse_expression(p, true));
		} else if (jinja_at(p, TOKEN_NAME) && p->at[1].type == TOKEN_ASSIGN) {
			if (args->keywords.count == sizeof(names) / sizeof(*names))
				jinja_parse_fail(p, line, "more than 64 keyword arguments");
			for (size_t i = 0; i < args->keywords.count; i++)
				if (jinja_equal(p->j, names[i], p->at->value))
					jinja_parse_fail(p, line, "keyword argument repeated: %.*s",
					    (int)names[i].len, names[i].text);
			names[args->keywords.count] = jinja_next(p)->value;
			jinja_next(p);
			jinja_nodes_add(p->j, &args->keywords,
			    jinja_adopt(p->j, owner, jinja_parse_expression(p, true)));
		} else if (args->dyn_args != NULL) {
			jinja_parse_fail(p, line, wrong);
		} else if (jinja_skip_if(p, TOKEN_MUL)) {
			args->dyn_args = jinja_adopt(p->j, owner, jinja_parse_expression(p, true));
		} else if (args->keywords.count > 0) {
			jinja_parse_fail(p, line, wrong);
		} else {
			jinja_nodes_add(p->j, &args->list,
			    jinja_adopt(p->j, owner, jinja_parse_expression(p, true)));
		}
	}
	jinja_expect(p, TOKEN_RPAREN);
	args->names = jinja_alloc_array(p->j, args->keywords.count, sizeof(*names));
	if (args->keywords.count != 0)
		memcpy(args->names, names, args->keywords.count * sizeof(*names));
	return args;
}

static struct jinja_node *
parse_call(struct jinja_parser *p, struct jinja_node *callee)
{
	struct jinja_node *node = jinja_parse_make(p, NODE_CALL, p->at->line, callee, NULL);

	node->args = parse_arguments(p, node);
	return node;
}

/* One of a list of subscripts: an expression or a slice. */
static struct jinja_node *
parse_subscribed(struct jinja_parser *p)
{
	uint32_t line = p->at->line;
	struct jinja_node *first = NULL, *slice;

	if (!jinja_at(p, TOKEN_COLON))
		first = jinja_parse_expression(p, true);
	if (!jinja_skip_if(p, TOKEN_COLON))
		return first;
	slice = jinja_node_new(p->j, NODE_SLICE, line);
	jinja_parse_add(p, slice, first);
	if (jinja_at(p, TOKEN_COLON) || jinja_at(p, TOKEN_RBRACKET) || jinja_at(p, TOKEN_COMMA))
		jinja_parse_add(p, slice, NULL);
	else
		jinja_parse_add(p, slice, jinja_parse_expression(p, true));
	if (jinja_skip_if(p, TOKEN_COLON) && !jinja_at(p, TOKEN_RBRACKET) &&
	    !jinja_at(p, TOKEN_COMMA))
		jinja_parse_add(p, slice, jinja_parse_expression(p, true));
	else
		jinja_parse_add(p, slice, NULL);
	return slice;
}

static struct jinja_node *
parse_subscript(struct jinja_parser *p, struct jinja_node *of)
{
	const struct jinja_token *token = jinja_next(p);
	struct jinja_node *node, *arg, *tuple;

	if (token->type == TOKEN_DOT) {
		const struct jinja_token *attr = jinja_next(p);

		if (attr->type == TOKEN_NAME) {
			node = jinja_parse_make(p, NODE_GETATTR, token->line, of, NULL);
			node->value = attr->value;
			return node;
		}
		if (attr->type != TOKEN_INTEGER)
			jinja_parse_fail(p, attr->line, "expected name or number");
		return jinja_parse_make(p, NODE_GETITEM, token->line, of,
		    jinja_parse_constant(p, attr->line, attr->value));
	}
	tuple = jinja_node_new(p->j, NODE_TUPLE, token->line);
	while (!jinja_at(p, TOKEN_RBRACKET)) {
		if (tuple->list.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		jinja_parse_add(p, tuple, parse_subscribed(p));
	}
	jinja_expect(p, TOKEN_RBRACKET);
	arg = tuple->list.count == 1 ? tuple->list.at[0] : tuple;
	for (size_t i = 0; arg == tuple && i < tuple->list.count; i++)
		if (tuple->list.at[i]->kind == NODE_SLICE)
			jinja_parse_fail(p, token->line, "a slice among several subscripts");
	return jinja_parse_make(p, NODE_GETITEM, token->line, of, arg);
}

struct jinja_node *
jinja_parse_postfix(struct jinja_parser *p, struct jinja_node *node)
{
	for (;;) {
		if (jinja_at(p, TOKEN_DOT) || jinja_at(p, TOKEN_LBRACKET))
			node = parse_subscript(p, node);
		else if (jinja_at(p, TOKEN_LPAREN))
			node = parse_call(p, node);
		else
			return node;
	}
}

/* name or dotted.name of a filter or test */
static struct jinja_value
parse_dotted(struct jinja_parser *p)
{
	struct jinja_value name = jinja_expect(p, TOKEN_NAME)->value;

	while (jinja_skip_if(p, TOKEN_DOT)) {
		struct jinja_value part = jinja_expect(p, TOKEN_NAME)->value;
		char *text = jinja_alloc(p->j, (size_t)name.len + 1 + part.len);

		memcpy(text, name.text, name.len);
		text[name.len] = '.';
		memcpy(text + name.len + 1, part.text, part.len);
		name = jinja_string(text, (size_t)name.len + 1 + part.len);
	}
	return name;
}

struct jinja_node *
jinja_parse_filters(struct jinja_parser *p, struct jinja_node *node, bool inline_first)
{
	while (inline_first || jinja_skip_if(p, TOKEN_PIPE)) {
		node = jinja_parse_make(p, NODE_FILTER, p->at->line, node, NULL);
		node->value = parse_dotted(p);
		if (jinja_at(p, TOKEN_LPAREN))
			node->args = parse_arguments(p, node);
		inline_first = false;
	}
	return node;
}

static struct jinja_node *
parse_test(struct jinja_parser *p, struct jinja_node *of)
{
	uint32_t line = jinja_next(p)->line;
	bool negated = jinja_skip_name(p, "not");
	struct jinja_node *node = jinja_parse_make(p, NODE_TEST, line, of, NULL), *arg;
	enum jinja_token_type type;

	node->value = parse_dotted(p);
	type = p->at->type;
	if (type == TOKEN_LPAREN) {
		node->args = parse_arguments(p, node);
	} else if ((type == TOKEN_NAME || type == TOKEN_STRING || type == TOKEN_INTEGER ||
		       type == TOKEN_FLOAT || type == TOKEN_LBRACKET || type == TOKEN_LBRACE) &&
		   !jinja_at_name(p, "else") && !jinja_at_name(p, "or") &&
		   !jinja_at_name(p, "and")) {
		if (jinja_at_name(p, "is"))
			jinja_parse_fail(p, p->at->line, "You cannot chain multiple tests with is");
		arg = jinja_parse_postfix(p, jinja_parse_primary(p, false));
		node->args = jinja_alloc(p->j, sizeof(*node->args));
		jinja_nodes_add(p->j, &node->args->list, jinja_adopt(p->j, node, arg));
	}
	return negated ? jinja_parse_make(p, NODE_NOT, line, node, NULL) : node;
}

struct jinja_node *
jinja_parse_filter_expression(struct jinja_parser *p, struct jinja_node *node)
{
	for (;;) {
		if (jinja_at(p, TOKEN_PIPE))
			node = jinja_parse_filters(p, node, false);
		else if (jinja_at_name(p, "is"))
			node = parse_test(p, node);
		else if (jinja_at(p, TOKEN_LPAREN))
			node = parse_call(p, node);
		else
			return node;
	}
}
