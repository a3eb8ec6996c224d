#include <string.h>

#include "worker/jinja/jinja_parser.h"

typedef struct jinja_node *statement(struct jinja_parser *p, uint32_t line);
static void parse_until(struct jinja_parser *p, struct jinja_node *owner, struct jinja_nodes *out);

/* The body of a block: up to one of the tags in `ends`, which becomes the current token. */
static void
parse_body(struct jinja_parser *p, struct jinja_node *owner, struct jinja_nodes *out,
    const char *const *ends)
{
	const char *const *outer = p->ends;

	jinja_skip_if(p, TOKEN_COLON);
	jinja_expect(p, TOKEN_BLOCK_END);
	p->ends = ends;
	parse_until(p, owner, out);
	if (jinja_at(p, TOKEN_EOF))
		jinja_parse_fail(p, p->at->line,
		    "Unexpected end of template. The block that starts on line %u needs '%s'",
		    owner->line, ends[0]);
	p->ends = outer;
}

static void
parse_whole_body(struct jinja_parser *p, struct jinja_node *owner, const char *end)
{
	const char *const ends[] = {end, NULL};

	parse_body(p, owner, &owner->body, ends);
	jinja_next(p);
}

static struct jinja_node *
parse_if(struct jinja_parser *p, uint32_t line)
{
	static const char *const ends[] = {"endif", "elif", "else", NULL};
	static const char *const last[] = {"endif", NULL};
	struct jinja_node *first = jinja_node_new(p->j, NODE_IF, line), *node = first;

	for (;;) {
		node->a = jinja_adopt(p->j, node, jinja_parse_tuple(p, false, NULL, false));
		parse_body(p, node, &node->body, ends);
		if (node != first)
			jinja_adopt(p->j, first, node);
		if (jinja_skip_name(p, "elif")) {
			node = jinja_node_new(p->j, NODE_IF, p->at->line);
			jinja_nodes_add(p->j, &first->more, node);
			continue;
		}
		if (jinja_skip_name(p, "else"))
			parse_body(p, first, &first->other, last);
		jinja_next(p);
		return first;
	}
}

static struct jinja_node *
parse_for(struct jinja_parser *p, uint32_t line)
{
	static const char *const ends[] = {"endfor", "else", NULL};
	static const char *const last[] = {"endfor", NULL};
	struct jinja_node *node = jinja_node_new(p->j, NODE_FOR, line);

	node->a = jinja_adopt(p->j, node, jinja_parse_target(p, "in", false));
	jinja_expect_name(p, "in");
	node->b = jinja_adopt(p->j, node, jinja_parse_tuple(p, false, "recursive", false));
	if (jinja_skip_name(p, "if"))
		node->c = jinja_adopt(p->j, node, jinja_parse_expression(p, true));
	if (jinja_at_name(p, "recursive"))
		jinja_parse_fail(p, p->at->line, "recursive loops are not supported");
	parse_body(p, node, &node->body, ends);
	if (jinja_skip_name(p, "else"))
		parse_body(p, node, &node->other, last);
	jinja_next(p);
	return node;
}

static struct jinja_node *
parse_set(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *target = jinja_parse_target(p, NULL, true), *node;

	if (jinja_skip_if(p, TOKEN_ASSIGN)) {
		node = jinja_node_new(p->j, NODE_SET, line);
		node->a = jinja_adopt(p->j, node, target);
		node->b = jinja_adopt(p->j, node, jinja_parse_tuple(p, true, NULL, false));
		return node;
	}
	node = jinja_node_new(p->j, NODE_SET_BLOCK, line);
	node->a = jinja_adopt(p->j, node, target);
	node->b = jinja_adopt(p->j, node, jinja_parse_filters(p, NULL, false));
	parse_whole_body(p, node, "endset");
	return node;
}

static struct jinja_function *
function_new(struct jinja_parser *p, struct jinja_value name)
{
	struct jinja_function *f = jinja_alloc(p->j, sizeof(*f));

	f->name = name;
	return f;
}

static void
parse_signature(struct jinja_parser *p, struct jinja_node *node)
{
	struct jinja_function *f = node->function;

	jinja_expect(p, TOKEN_LPAREN);
	while (!jinja_at(p, TOKEN_RPAREN)) {
		struct jinja_node *parameter;

		if (f->parameters.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		parameter = jinja_parse_name(p);
		for (size_t i = 0; i < f->parameters.count; i++)
			if (jinja_equal(p->j, f->parameters.at[i]->value, parameter->value))
				jinja_parse_fail(p, parameter->line,
				    "duplicate argument '%.*s' in a macro",
				    (int)parameter->value.len, parameter->value.text);
		jinja_nodes_add(p->j, &f->parameters, parameter);
		if (jinja_skip_if(p, TOKEN_ASSIGN))
			jinja_nodes_add(p->j, &f->defaults,
			    jinja_adopt(p->j, node, jinja_parse_expression(p, true)));
		else if (f->defaults.count > 0)
			jinja_parse_fail(
			    p, p->at->line, "non-default argument follows default argument");
	}
	jinja_expect(p, TOKEN_RPAREN);
}

static struct jinja_node *
parse_macro(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_MACRO, line);

	node->value = jinja_parse_name(p)->value;
	node->function = function_new(p, node->value);
	parse_signature(p, node);
	parse_whole_body(p, node, "endmacro");
	return node;
}

static struct jinja_node *
parse_call_block(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_CALL_BLOCK, line);

	node->function = function_new(p, jinja_none());
	if (jinja_at(p, TOKEN_LPAREN))
		parse_signature(p, node);
	node->b = jinja_adopt(p->j, node, jinja_parse_expression(p, true));
	if (node->b->kind != NODE_CALL)
		jinja_parse_fail(p, line, "expected call");
	parse_whole_body(p, node, "endcall");
	return node;
}

static struct jinja_node *
parse_generation(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_GENERATION, line);

	node->function = function_new(p, jinja_none());
	parse_whole_body(p, node, "endgeneration");
	return node;
}

static struct jinja_node *
parse_filter_block(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_FILTER_BLOCK, line);

	node->b = jinja_adopt(p->j, node, jinja_parse_filters(p, NULL, true));
	parse_whole_body(p, node, "endfilter");
	return node;
}

static struct jinja_node *
parse_with(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_WITH, line);

	while (!jinja_at(p, TOKEN_BLOCK_END)) {
		if (node->list.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		jinja_nodes_add(
		    p->j, &node->list, jinja_adopt(p->j, node, jinja_parse_target(p, NULL, false)));
		jinja_expect(p, TOKEN_ASSIGN);
		jinja_nodes_add(
		    p->j, &node->more, jinja_adopt(p->j, node, jinja_parse_expression(p, true)));
	}
	parse_whole_body(p, node, "endwith");
	return node;
}

static struct jinja_node *
parse_autoescape(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_AUTOESCAPE, line);

	node->a = jinja_adopt(p->j, node, jinja_parse_expression(p, true));
	parse_whole_body(p, node, "endautoescape");
	return node;
}

static struct jinja_node *
parse_block(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *node = jinja_node_new(p->j, NODE_BLOCK, line);
	struct jinja_value name = jinja_expect(p, TOKEN_NAME)->value;

	node->value = name;
	if (jinja_at_name(p, "scoped") || jinja_at_name(p, "required"))
		jinja_parse_fail(p, line, "scoped and required blocks are not supported");
	parse_whole_body(p, node, "endblock");
	if (jinja_at(p, TOKEN_NAME) && jinja_equal(p->j, p->at->value, name))
		jinja_next(p);
	return node;
}

/* {% print a, b %} is one output after the other. */
static struct jinja_node *
parse_print(struct jinja_parser *p, uint32_t line)
{
	struct jinja_node *all = jinja_node_new(p->j, NODE_CONCAT, line), *out;

	while (!jinja_at(p, TOKEN_BLOCK_END)) {
		if (all->list.count > 0)
			jinja_expect(p, TOKEN_COMMA);
		jinja_nodes_add(
		    p->j, &all->list, jinja_adopt(p->j, all, jinja_parse_expression(p, true)));
	}
	out = jinja_node_new(p->j, NODE_OUTPUT, line);
	out->a = jinja_adopt(p->j, out, all);
	return out;
}

static struct jinja_node *
parse_break(struct jinja_parser *p, uint32_t line)
{
	return jinja_node_new(p->j, NODE_BREAK, line);
}

static struct jinja_node *
parse_continue(struct jinja_parser *p, uint32_t line)
{
	return jinja_node_new(p->j, NODE_CONTINUE, line);
}

static struct jinja_node *
parse_statement(struct jinja_parser *p)
{
	static const struct {
		const char *name;
		statement *parse; /* NULL: Jinja has it, templates of one file do not */
	} table[] = {{"if", parse_if}, {"for", parse_for}, {"set", parse_set},
	    {"macro", parse_macro}, {"call", parse_call_block}, {"filter", parse_filter_block},
	    {"generation", parse_generation}, {"break", parse_break}, {"continue", parse_continue},
	    {"with", parse_with}, {"print", parse_print}, {"autoescape", parse_autoescape},
	    {"block", parse_block}, {"include", NULL}, {"extends", NULL}, {"import", NULL},
	    {"from", NULL}};
	const struct jinja_token *token = jinja_next(p);
	const char *outer = p->open;
	struct jinja_node *node;

	if (token->type != TOKEN_NAME)
		jinja_parse_fail(p, token->line, "tag name expected");
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (!jinja_string_is(token->value, table[i].name))
			continue;
		if (table[i].parse == NULL)
			jinja_parse_fail(p, token->line, "'%s' is not supported", table[i].name);
		p->open = table[i].name;
		node = table[i].parse(p, token->line);
		p->open = outer;
		return node;
	}
	jinja_parse_fail(p, token->line, "Encountered unknown tag '%.*s'.%s%s",
	    token->value.len > 80 ? 80 : (int)token->value.len, token->value.text,
	    p->open == NULL ? "" : " The innermost block that needs to be closed is ",
	    p->open == NULL ? "" : p->open);
}

static bool
at_end(const struct jinja_parser *p)
{
	for (const char *const *end = p->ends; end != NULL && *end != NULL; end++)
		if (jinja_at_name(p, *end))
			return true;
	return false;
}

/* Statements up to one of p->ends, which is the current token then, or to the end. */
static void
parse_until(struct jinja_parser *p, struct jinja_node *owner, struct jinja_nodes *out)
{
	jinja_descend(p);
	while (!jinja_at(p, TOKEN_EOF)) {
		const struct jinja_token *token = jinja_next(p);
		struct jinja_node *node;

		if (token->type == TOKEN_DATA) {
			node = jinja_node_new(p->j, NODE_TEXT, token->line);
			node->value = token->value;
		} else if (token->type == TOKEN_VARIABLE_BEGIN) {
			node = jinja_node_new(p->j, NODE_OUTPUT, token->line);
			node->a = jinja_adopt(p->j, node, jinja_parse_tuple(p, true, NULL, false));
			jinja_expect(p, TOKEN_VARIABLE_END);
		} else {
			if (at_end(p))
				break;
			node = parse_statement(p);
			jinja_expect(p, TOKEN_BLOCK_END);
		}
		if (owner != NULL)
			jinja_adopt(p->j, owner, node);
		jinja_nodes_add(p->j, out, node);
	}
	p->depth--;
}

void
jinja_parse(struct jinja *j, const struct jinja_tokens *tokens, struct jinja_nodes *out)
{
	struct jinja_parser p = {.j = j, .at = tokens->at};

	memset(out, 0, sizeof(*out));
	parse_until(&p, NULL, out);
}
