#include <string.h>

#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_repr.h"

struct jinja_frame *
jinja_frame_new(struct jinja *j, const struct jinja_function *function, struct jinja_frame *parent)
{
	struct jinja_frame *f =
	    jinja_alloc(j, sizeof(*f) + function->slots * sizeof(struct jinja_value));

	f->parent = parent;
	return f;
}

void
jinja_scope_enter(struct jinja *j, struct jinja_frame *f, const struct jinja_scope *scope)
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct jinja_load *load = &scope->loads[i];
		struct jinja_value v = {0}, *found;

		if (load->kind == LOAD_ALIAS)
			v = *jinja_slot(f, load->from);
		else if (load->kind == LOAD_CONTEXT &&
			 (found = jinja_dict_get(j, j->context, load->name)) != NULL)
			v = *found;
		f->slots[load->slot] = v;
	}
}

void
jinja_scope_leave(struct jinja_frame *f, const struct jinja_scope *scope)
{
	for (size_t i = 0; i < scope->slot_count; i++)
		f->slots[scope->slots[i]] = (struct jinja_value){0};
}

static void
unpack(
    struct jinja *j, struct jinja_frame *f, const struct jinja_node *target, struct jinja_value v)
{
	size_t want = target->list.count;
	struct jinja_iterator *it = jinja_iterate(j, v);
	struct jinja_value *items = jinja_alloc_array(j, want + 1, sizeof(*items));

	for (size_t i = 0; i < want; i++)
		if (!jinja_iterator_next(j, it, &items[i]))
			jinja_fail(j, JINJA_RUNTIME,
			    "not enough values to unpack (expected %zu, got %zu)", want, i);
	if (jinja_iterator_next(j, it, &items[want]))
		jinja_fail(j, JINJA_RUNTIME, "too many values to unpack (expected %zu)", want);
	for (size_t i = 0; i < want; i++)
		jinja_assign(j, f, target->list.at[i], items[i]);
}

void
jinja_assign(
    struct jinja *j, struct jinja_frame *f, const struct jinja_node *target, struct jinja_value v)
{
	struct jinja_value *slot;

	if (target->kind == NODE_TUPLE) {
		unpack(j, f, target, v);
		return;
	}
	slot = jinja_slot(f, target->ref);
	if (target->kind == NODE_NAME) {
		*slot = v;
		return;
	}
	if (slot->type != JINJA_NAMESPACE)
		jinja_fail(j, JINJA_RUNTIME, "cannot assign attribute on non-namespace object");
	if (target->attr.len > 0 && target->attr.text[0] == '_')
		jinja_fail(j, JINJA_RUNTIME,
		    "Chat templates cannot store underscore-prefixed attributes on a namespace, "
		    "but "
		    "got '%.*s'. Please rename the attribute.",
		    target->attr.len > 80 ? 80 : (int)target->attr.len, target->attr.text);
	jinja_dict_set(j, slot->dict, target->attr, v);
}

/* The generator of `for x in y if test`. */
struct tested {
	const struct jinja_node *loop;
	struct jinja_frame *frame;
};

static bool
next_tested(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	const struct tested *t = it->state;
	const struct jinja_node *target = t->loop->function->parameters.at[0];
	struct jinja_value item;

	while (jinja_iterator_next(j, it->inner, &item)) {
		jinja_assign(j, t->frame, target, item);
		if (!jinja_truth(jinja_eval(j, t->frame, t->loop->c)))
			continue;
		*out = target->kind == NODE_TUPLE ? jinja_eval(j, t->frame, target) : item;
		return true;
	}
	return false;
}

static struct jinja_value
with_test(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node,
    struct jinja_value iterable)
{
	struct tested *t = jinja_alloc(j, sizeof(*t));

	t->loop = node;
	t->frame = jinja_frame_new(j, node->function, f);
	jinja_scope_enter(j, t->frame, &node->function->scope);
	return jinja_generator(j, iterable, next_tested, t);
}

static enum jinja_flow
run_for(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value iterable = jinja_eval(j, f, node->b), item;
	struct jinja_iterator *it;
	struct jinja_loop *loop = NULL;
	bool completed = false;
	enum jinja_flow flow = JINJA_ON;

	if (node->c != NULL)
		iterable = with_test(j, f, node, iterable);
	it = jinja_iterate(j, iterable);
	if (node->extended) {
		loop = jinja_loop_new(j, iterable, it);
		f->slots[node->loop_ref.slot] = JINJA_VALUE(LOOP, loop, loop);
	}
	while (loop != NULL ? jinja_loop_next(j, loop, &item) : jinja_iterator_next(j, it, &item)) {
		jinja_assign(j, f, node->a, item);
		if (loop != NULL)
			f->slots[node->loop_ref.slot] = JINJA_VALUE(LOOP, loop, loop);
		jinja_scope_enter(j, f, &node->scope);
		flow = jinja_run(j, f, &node->body);
		/* As Jinja has it: a loop whose bodies never came to their end counts as empty. */
		completed |= flow == JINJA_ON;
		if (flow == JINJA_BREAK)
			break;
	}
	jinja_scope_leave(f, &node->scope);
	if (completed || node->other.count == 0)
		return JINJA_ON;
	jinja_scope_enter(j, f, &node->other_scope);
	flow = jinja_run(j, f, &node->other);
	jinja_scope_leave(f, &node->other_scope);
	return flow;
}

static enum jinja_flow
run_if(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	if (jinja_truth(jinja_eval(j, f, node->a)))
		return jinja_run(j, f, &node->body);
	for (size_t i = 0; i < node->more.count; i++) {
		j->line = node->more.at[i]->line;
		if (jinja_truth(jinja_eval(j, f, node->more.at[i]->a)))
			return jinja_run(j, f, &node->more.at[i]->body);
	}
	return jinja_run(j, f, &node->other);
}

/* What filter and call blocks give goes into the output as it is, so it must be text. */
static void
put_joined(struct jinja *j, struct jinja_value v)
{
	if (v.type != JINJA_STRING)
		jinja_fail(j, JINJA_RUNTIME, "sequence item: expected str instance, %s found",
		    jinja_type_name(v));
	jinja_put(j, v.text, v.len);
}

/* A set block or a filter block: what the body puts out goes through the filter. */
static enum jinja_flow
run_captured(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	size_t from = j->out_len;
	enum jinja_flow flow;
	struct jinja_value v;

	jinja_scope_enter(j, f, &node->scope);
	flow = jinja_run(j, f, &node->body);
	v = jinja_capture(j, from);
	v.flags = j->autoescape ? JINJA_MARKUP : 0;
	if (flow == JINJA_ON && node->b != NULL) {
		j->block = &v;
		v = jinja_eval(j, f, node->b);
	}
	if (flow == JINJA_ON && node->kind == NODE_SET_BLOCK) {
		if (j->autoescape && v.type == JINJA_STRING)
			v.flags = JINJA_MARKUP;
		jinja_assign(j, f, node->a, v);
	} else if (flow == JINJA_ON) {
		put_joined(j, v);
	}
	jinja_scope_leave(f, &node->scope);
	return flow;
}

static enum jinja_flow
run_with(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	enum jinja_flow flow;

	jinja_scope_enter(j, f, &node->scope);
	for (size_t i = 0; i < node->list.count; i++)
		jinja_assign(j, f, node->list.at[i], jinja_eval(j, f, node->more.at[i]));
	flow = jinja_run(j, f, &node->body);
	jinja_scope_leave(f, &node->scope);
	return flow;
}

/* block and autoescape */
static enum jinja_flow
run_scope(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	bool escape = j->autoescape;
	enum jinja_flow flow;

	jinja_scope_enter(j, f, &node->scope);
	if (node->kind == NODE_AUTOESCAPE)
		j->autoescape = jinja_truth(jinja_eval(j, f, node->a));
	flow = jinja_run(j, f, &node->body);
	j->autoescape = escape;
	jinja_scope_leave(f, &node->scope);
	return flow;
}

static struct jinja_value
macro_value(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_macro *macro = jinja_alloc(j, sizeof(*macro));

	macro->function = node->function;
	macro->closure = f;
	return JINJA_VALUE(MACRO, macro, macro);
}

static void
run_call_block(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value callee = jinja_eval(j, f, node->b->a), v;
	struct jinja_args args;

	jinja_eval_args(j, f, node->b->args, macro_value(j, f, node), &args);
	v = jinja_call(j, callee, &args);
	put_joined(j, v);
}

static void
run_generation(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_frame *inner = jinja_frame_new(j, node->function, f);
	const struct jinja_function *fn = node->function;

	if (fn->takes_caller)
		inner->slots[fn->caller] = jinja_undefined_hint(j, "No caller defined");
	if (fn->takes_kwargs)
		inner->slots[fn->kwargs] = JINJA_VALUE(DICT, dict, jinja_dict_new(j, 0));
	if (fn->takes_varargs)
		inner->slots[fn->varargs] = JINJA_VALUE(TUPLE, list, jinja_list_new(j, 0));
	jinja_scope_enter(j, inner, &fn->scope);
	jinja_run(j, inner, &fn->body);
}

static void
run_output(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value v;

	j->folding = node->op == 'c';
	v = jinja_eval(j, f, node->a);
	j->folding = false;
	jinja_put_str(j, j->autoescape ? jinja_escape(j, v) : v);
}

static void
run_set(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	jinja_assign(j, f, node->a, jinja_eval(j, f, node->b));
}

static enum jinja_flow
run_one(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	j->line = node->line;
	switch (node->kind) {
	case NODE_TEXT:
		jinja_put(j, node->value.text, node->value.len);
		return JINJA_ON;
	case NODE_OUTPUT:
		run_output(j, f, node);
		return JINJA_ON;
	case NODE_SET:
		run_set(j, f, node);
		return JINJA_ON;
	case NODE_IF:
		return run_if(j, f, node);
	case NODE_FOR:
		return run_for(j, f, node);
	case NODE_SET_BLOCK:
	case NODE_FILTER_BLOCK:
		return run_captured(j, f, node);
	case NODE_MACRO:
		*jinja_slot(f, node->ref) = macro_value(j, f, node);
		return JINJA_ON;
	case NODE_CALL_BLOCK:
		run_call_block(j, f, node);
		return JINJA_ON;
	case NODE_GENERATION:
		run_generation(j, f, node);
		return JINJA_ON;
	case NODE_WITH:
		return run_with(j, f, node);
	case NODE_AUTOESCAPE:
	case NODE_BLOCK:
		return run_scope(j, f, node);
	case NODE_BREAK:
		return JINJA_BREAK;
	default: /* NODE_CONTINUE */
		return JINJA_CONTINUE;
	}
}

enum jinja_flow
jinja_run(struct jinja *j, struct jinja_frame *f, const struct jinja_nodes *nodes)
{
	enum jinja_flow flow = JINJA_ON;

	jinja_enter(j);
	for (size_t i = 0; flow == JINJA_ON && i < nodes->count; i++) {
		jinja_pay(j, 0);
		flow = run_one(j, f, nodes->at[i]);
	}
	jinja_leave(j);
	return flow;
}
