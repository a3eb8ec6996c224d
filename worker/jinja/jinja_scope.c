#include "worker/jinja/jinja_scope.h"

#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_symbols.h"
#include "worker/jinja/jinja_walk.h"

/* Where the resolver stands. */
struct place {
	struct jinja_symbols *symbols;
	bool soft;   /* inside an if: unknown filters and tests are refused when reached */
	bool loop;   /* break and continue have a loop to act on */
	bool in_for; /* anywhere below a for, also in macros there */
	bool top;    /* outside of every scope but the root's */
};

static void resolve_all(struct jinja *j, struct place at, const struct jinja_nodes *nodes);

static void
resolve_name(struct jinja *j, struct place at, struct jinja_node *node)
{
	if (node->store && at.in_for && node->kind == NODE_NAME &&
	    jinja_string_is(node->value, "loop"))
		jinja_fail(
		    j, JINJA_SYNTAX, "Can't assign to special loop variable in for-loop target");
	node->ref = jinja_symbols_ref(j, at.symbols, node->value);
	if (!node->store &&
	    (jinja_string_is(node->value, "self") || jinja_string_is(node->value, "super")))
		jinja_fail(j, JINJA_SYNTAX, "'%.*s' is not supported", (int)node->value.len,
		    node->value.text);
}

static void
resolve_entry(struct jinja *j, struct place at, struct jinja_node *node)
{
	bool filter = node->kind == NODE_FILTER;
	int len = node->value.len > 80 ? 80 : (int)node->value.len;

	node->entry = filter ? (const void *)jinja_filter_find(node->value)
			     : (const void *)jinja_test_find(node->value);
	if (node->entry == NULL && !at.soft)
		jinja_fail(j, JINJA_SYNTAX, "No %s named '%.*s'%s.", filter ? "filter" : "test",
		    len, node->value.text,
		    filter && jinja_filter_refused(node->value) ? " is supported" : "");
}

static void
resolve_expression(struct jinja *j, struct place at, struct jinja_node *node)
{
	if (node == NULL)
		return;
	jinja_pay(j, 0);
	j->line = node->line;
	if (node->kind == NODE_NAME || node->kind == NODE_NSREF)
		resolve_name(j, at, node);
	if (node->kind == NODE_FILTER || node->kind == NODE_TEST)
		resolve_entry(j, at, node);
	/* Where no method of dicts can be meant, evaluation looks for the key at once. */
	if (node->kind == NODE_GETATTR)
		node->op =
		    jinja_dict_has_method(node->value) || node->value.text[0] == '_' ? 'm' : 0;
	if (node->kind == NODE_CALL && node->a->kind == NODE_NAME &&
	    jinja_string_is(node->a->value, "lipsum"))
		jinja_fail(j, JINJA_SYNTAX, "lipsum() is not supported");
	at.soft |= node->kind == NODE_CONDITION;
	resolve_expression(j, at, node->a);
	resolve_expression(j, at, node->b);
	resolve_expression(j, at, node->c);
	for (size_t i = 0; i < node->list.count; i++)
		resolve_expression(j, at, node->list.at[i]);
	if (node->args == NULL)
		return;
	for (size_t i = 0; i < node->args->list.count; i++)
		resolve_expression(j, at, node->args->list.at[i]);
	for (size_t i = 0; i < node->args->keywords.count; i++)
		resolve_expression(j, at, node->args->keywords.at[i]);
	resolve_expression(j, at, node->args->dyn_args);
	resolve_expression(j, at, node->args->dyn_kwargs);
}

/* A scope inside the same function. */
static struct place
inner(struct jinja *j, struct place at)
{
	at.symbols = jinja_symbols_new(j, at.symbols, at.symbols->slots);
	at.soft = false;
	at.top = false;
	return at;
}

/* A scope of a new function, `f`, seen from `at`. */
static struct place
inside(struct jinja *j, struct place at)
{
	struct jinja_slots *slots = jinja_alloc(j, sizeof(*slots));

	slots->depth = at.symbols->slots->depth + 1;
	at.symbols = jinja_symbols_new(j, at.symbols, slots);
	at.soft = at.loop = at.top = false;
	return at;
}

static void
finish(struct jinja *j, struct place at, struct jinja_function *f)
{
	jinja_symbols_scope(j, at.symbols, &f->scope);
	f->slots = (uint32_t)at.symbols->slots->count;
}

static void
resolve_function(struct jinja *j, struct place outer, struct jinja_node *node)
{
	static const char caller[] = "caller", kwargs[] = "kwargs", varargs[] = "varargs";
	struct jinja_function *f = node->function;
	struct place at = inside(j, outer);
	bool own_kwargs = false, own_varargs = false;

	f->body = node->body;
	for (size_t i = 0; i < f->parameters.count; i++) {
		struct jinja_node *parameter = f->parameters.at[i];

		parameter->ref =
		    (struct jinja_ref){0, jinja_symbols_parameter(j, at.symbols, parameter->value)};
		own_kwargs |= jinja_string_is(parameter->value, kwargs);
		own_varargs |= jinja_string_is(parameter->value, varargs);
		if (!jinja_string_is(parameter->value, caller))
			continue;
		f->explicit_caller = true;
		if (jinja_reads(j, &f->body, caller) && i + f->defaults.count < f->parameters.count)
			jinja_fail(j, JINJA_SYNTAX,
			    "the special \"caller\" argument must be omitted or be given a "
			    "default");
	}
	jinja_symbols_visit_all(j, at.symbols, &f->defaults);
	f->takes_caller = jinja_reads(j, &f->body, caller);
	if (f->takes_caller && !f->explicit_caller)
		f->caller = jinja_symbols_parameter(
		    j, at.symbols, jinja_string(caller, sizeof(caller) - 1));
	f->takes_kwargs = !own_kwargs && jinja_reads(j, &f->body, kwargs);
	if (f->takes_kwargs)
		f->kwargs = jinja_symbols_parameter(
		    j, at.symbols, jinja_string(kwargs, sizeof(kwargs) - 1));
	f->takes_varargs = !own_varargs && jinja_reads(j, &f->body, varargs);
	if (f->takes_varargs)
		f->varargs = jinja_symbols_parameter(
		    j, at.symbols, jinja_string(varargs, sizeof(varargs) - 1));
	jinja_symbols_visit_all(j, at.symbols, &f->body);
	for (size_t i = 0; i < f->defaults.count; i++)
		resolve_expression(j, at, f->defaults.at[i]);
	resolve_all(j, at, &f->body);
	finish(j, at, f);
}

static struct jinja_node *
clone_target(struct jinja *j, const struct jinja_node *node)
{
	struct jinja_node *copy = jinja_node_new(j, node->kind, node->line);

	*copy = *node;
	copy->list = (struct jinja_nodes){0};
	for (size_t i = 0; i < node->list.count; i++)
		jinja_nodes_add(j, &copy->list, clone_target(j, node->list.at[i]));
	return copy;
}

/* The test runs in a function of its own: it has the target's names, not the loop's. */
static void
resolve_for_test(struct jinja *j, struct place outer, struct jinja_node *node)
{
	struct place at = inside(j, outer);
	struct jinja_node *target = clone_target(j, node->a);

	node->function = jinja_alloc(j, sizeof(*node->function));
	jinja_symbols_target(j, at.symbols, target);
	jinja_symbols_visit(j, at.symbols, node->c);
	jinja_nodes_add(j, &node->function->parameters, target);
	resolve_expression(j, at, target);
	resolve_expression(j, at, node->c);
	finish(j, at, node->function);
}

static void
resolve_for(struct jinja *j, struct place outer, struct jinja_node *node)
{
	struct place body, other;

	outer.in_for = true;
	body = inner(j, outer);
	other = inner(j, outer);
	body.loop = true;
	resolve_expression(j, outer, node->b);
	node->extended = jinja_reads(j, &node->body, "loop");
	if (node->extended)
		node->loop_ref = (struct jinja_ref){
		    0, jinja_symbols_parameter(j, body.symbols, jinja_string("loop", 4))};
	jinja_symbols_target(j, body.symbols, node->a);
	jinja_symbols_visit_all(j, body.symbols, &node->body);
	resolve_expression(j, body, node->a);
	if (node->c != NULL)
		resolve_for_test(j, outer, node);
	resolve_all(j, body, &node->body);
	jinja_symbols_scope(j, body.symbols, &node->scope);
	if (node->other.count > 0) {
		jinja_symbols_visit_all(j, other.symbols, &node->other);
		resolve_all(j, other, &node->other);
		jinja_symbols_scope(j, other.symbols, &node->other_scope);
	}
}

static void
resolve_with(struct jinja *j, struct place outer, struct jinja_node *node)
{
	struct place at = inner(j, outer);

	for (size_t i = 0; i < node->list.count; i++) {
		jinja_symbols_target(j, at.symbols, node->list.at[i]);
		resolve_expression(j, outer, node->more.at[i]);
	}
	jinja_symbols_visit_all(j, at.symbols, &node->body);
	for (size_t i = 0; i < node->list.count; i++)
		resolve_expression(j, at, node->list.at[i]);
	resolve_all(j, at, &node->body);
	jinja_symbols_scope(j, at.symbols, &node->scope);
}

/* Set blocks, filter blocks, autoescape, block: a body with a scope and perhaps a filter. */
static void
resolve_block(struct jinja *j, struct place outer, struct jinja_node *node)
{
	struct place at = inner(j, outer);

	if (node->kind == NODE_BLOCK && !outer.top)
		jinja_fail(j, JINJA_SYNTAX, "blocks inside of other blocks are not supported");
	if (node->kind == NODE_BLOCK)
		at.loop = false;
	jinja_symbols_visit_all(j, at.symbols, &node->body);
	jinja_symbols_visit(j, at.symbols, node->b);
	if (node->kind == NODE_AUTOESCAPE)
		jinja_symbols_visit(j, at.symbols, node->a);
	resolve_expression(j, node->kind == NODE_AUTOESCAPE ? at : outer, node->a);
	resolve_expression(j, at, node->b);
	resolve_all(j, at, &node->body);
	jinja_symbols_scope(j, at.symbols, &node->scope);
}

static void
resolve_if(struct jinja *j, struct place at, struct jinja_node *node)
{
	at.soft = true;
	resolve_expression(j, at, node->a);
	resolve_all(j, at, &node->body);
	resolve_all(j, at, &node->more);
	resolve_all(j, at, &node->other);
}

static void
resolve(struct jinja *j, struct place at, struct jinja_node *node)
{
	j->line = node->line;
	switch (node->kind) {
	case NODE_TEXT:
		break;
	case NODE_IF:
		resolve_if(j, at, node);
		break;
	case NODE_FOR:
		resolve_for(j, at, node);
		break;
	case NODE_MACRO:
		node->ref = jinja_symbols_ref(j, at.symbols, node->value);
		resolve_function(j, at, node);
		break;
	case NODE_CALL_BLOCK:
	case NODE_GENERATION:
		resolve_expression(j, at, node->b);
		resolve_function(j, at, node);
		break;
	case NODE_WITH:
		resolve_with(j, at, node);
		break;
	case NODE_SET_BLOCK:
	case NODE_FILTER_BLOCK:
	case NODE_AUTOESCAPE:
	case NODE_BLOCK:
		resolve_block(j, at, node);
		break;
	case NODE_BREAK:
	case NODE_CONTINUE:
		if (!at.loop)
			jinja_fail(j, JINJA_SYNTAX, "'%s' outside loop",
			    node->kind == NODE_BREAK ? "break" : "continue");
		break;
	default: /* NODE_SET, NODE_OUTPUT */
		node->op = node->kind == NODE_OUTPUT && jinja_is_constant(j, node->a) ? 'c' : 0;
		resolve_expression(j, at, node->b);
		resolve_expression(j, at, node->a);
	}
}

static void
resolve_all(struct jinja *j, struct place at, const struct jinja_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++)
		resolve(j, at, nodes->at[i]);
}

struct jinja_function *
jinja_scope_resolve(struct jinja *j, struct jinja_nodes body)
{
	struct jinja_function *root = jinja_alloc(j, sizeof(*root));
	struct jinja_slots *slots = jinja_alloc(j, sizeof(*slots));
	struct place at = {.symbols = jinja_symbols_new(j, NULL, slots), .top = true};

	root->body = body;
	jinja_symbols_visit_all(j, at.symbols, &body);
	resolve_all(j, at, &body);
	finish(j, at, root);
	return root;
}
