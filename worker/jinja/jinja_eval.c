#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"

struct jinja_value *
jinja_slot(struct jinja_frame *f, struct jinja_ref ref)
{
	for (uint32_t i = 0; i < ref.hops; i++)
		f = f->parent;
	return &f->slots[ref.slot];
}

static struct jinja_value
eval_list(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_list *list = jinja_list_new(j, node->list.count);

	for (size_t i = 0; i < node->list.count; i++)
		jinja_append(j, list, jinja_eval(j, f, node->list.at[i]));
	if (node->kind == NODE_TUPLE)
		return JINJA_VALUE(TUPLE, list, list);
	return JINJA_VALUE(LIST, list, list);
}

static struct jinja_value
eval_dict(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_dict *d = jinja_dict_new(j, node->list.count / 2);

	for (size_t i = 0; i + 1 < node->list.count; i += 2) {
		struct jinja_value key = jinja_eval(j, f, node->list.at[i]);

		jinja_dict_set(j, d, key, jinja_eval(j, f, node->list.at[i + 1]));
	}
	return JINJA_VALUE(DICT, dict, d);
}

/* a ~ b ~ c: str() of each; escaped where autoescape asks for it. */
static struct jinja_value
eval_concat(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value first = jinja_eval(j, f, node->list.at[0]), part;
	size_t n = node->list.count;

	first = j->autoescape ? jinja_escape(j, first) : jinja_to_str(j, first);
	for (size_t i = 1; i < n; i++) {
		part = jinja_eval(j, f, node->list.at[i]);
		part = j->autoescape ? jinja_escape(j, part) : jinja_to_str(j, part);
		first = jinja_concat(j, first, part);
	}
	return first;
}

/* Whether two values have an order at all, which jinja_less decides. */
static bool
ordered(struct jinja_value a, struct jinja_value b)
{
	return (jinja_is_number(a) && jinja_is_number(b)) ||
	       (a.type == b.type &&
		   (a.type == JINJA_STRING || a.type == JINJA_LIST || a.type == JINJA_TUPLE));
}

static bool
compare(struct jinja *j, char op, struct jinja_value a, struct jinja_value b)
{
	static const char *const names[] = {"<", "<=", ">", ">="};
	static const char ops[] = "<l>g";

	switch (op) {
	case '=':
		return jinja_equal(j, a, b);
	case '!':
		return !jinja_equal(j, a, b);
	case 'i':
		return jinja_contains(j, a, b);
	case 'n':
		return !jinja_contains(j, a, b);
	default:
		break;
	}
	if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, a.type == JINJA_UNDEFINED ? a : b);
	if (!ordered(a, b))
		jinja_fail(j, JINJA_RUNTIME,
		    "'%s' not supported between instances of '%s' and '%s'",
		    names[strchr(ops, op) - ops], jinja_type_name(a), jinja_type_name(b));
	if (jinja_is_number(a)) {
		int order = jinja_number_compare(a, b);

		return op == '<'   ? order == -1
		       : op == 'l' ? order == -1 || order == 0
		       : op == '>' ? order == 1
				   : order == 1 || order == 0;
	}
	return op == '<'   ? jinja_less(j, a, b)
	       : op == '>' ? jinja_less(j, b, a)
	       : op == 'l' ? !jinja_less(j, b, a)
			   : !jinja_less(j, a, b);
}

static struct jinja_value
eval_compare(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value left = jinja_eval(j, f, node->a), right;

	for (size_t i = 0; i < node->list.count; i++) {
		right = jinja_eval(j, f, node->list.at[i]->b);
		if (!compare(j, node->list.at[i]->op, left, right))
			return jinja_bool(false);
		left = right;
	}
	return jinja_bool(true);
}

static struct jinja_value
eval_getattr(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value obj = jinja_eval(j, f, node->a);

	if (obj.type == JINJA_DICT && node->op == 0) {
		const struct jinja_value *v = jinja_dict_get(j, obj.dict, node->value);

		return v != NULL ? *v : jinja_undefined_of(j, obj, node->value, false);
	}
	return jinja_getattr(j, obj, node->value);
}

static struct jinja_value
eval_slice(
    struct jinja *j, struct jinja_frame *f, const struct jinja_node *node, struct jinja_value obj)
{
	struct jinja_value bounds[3];

	for (int i = 0; i < 3; i++)
		bounds[i] = node->b->list.at[i] == NULL ? jinja_none()
							: jinja_eval(j, f, node->b->list.at[i]);
	/* While it folds constants Jinja makes undefined of what has no slices. */
	if (j->folding && obj.type != JINJA_UNDEFINED && obj.type != JINJA_STRING &&
	    obj.type != JINJA_LIST && obj.type != JINJA_TUPLE && obj.type != JINJA_RANGE)
		return jinja_undefined_hint(j, "a constant that cannot be sliced");
	return jinja_slice(j, obj, bounds[0], bounds[1], bounds[2]);
}

static struct jinja_value
eval_filter(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	const struct jinja_filter *filter = node->entry;
	struct jinja_args args = {0};
	struct jinja_value v;

	if (node->a == NULL)
		v = *(const struct jinja_value *)j->block;
	else
		v = jinja_eval(j, f, node->a);
	if (filter == NULL)
		jinja_fail(j, JINJA_RUNTIME, "No filter named '%.*s' found.",
		    node->value.len > 80 ? 80 : (int)node->value.len, node->value.text);
	if (node->args != NULL)
		jinja_eval_args(j, f, node->args, (struct jinja_value){0}, &args);
	return filter->run(j, v, &args);
}

static struct jinja_value
eval_test(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	const struct jinja_test *test = node->entry;
	struct jinja_value v = jinja_eval(j, f, node->a);
	struct jinja_args args = {0};

	if (test == NULL)
		jinja_fail(j, JINJA_RUNTIME, "No test named '%.*s' found.",
		    node->value.len > 80 ? 80 : (int)node->value.len, node->value.text);
	if (node->args != NULL)
		jinja_eval_args(j, f, node->args, (struct jinja_value){0}, &args);
	return jinja_bool(test->run(j, v, &args));
}

static struct jinja_value
eval_call(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value callee = jinja_eval(j, f, node->a);
	struct jinja_args args;

	jinja_eval_args(j, f, node->args, (struct jinja_value){0}, &args);
	return jinja_call(j, callee, &args);
}

static struct jinja_value
eval_name(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value v = *jinja_slot(f, node->ref);

	return v.type == JINJA_MISSING ? jinja_undefined_name(j, node->value) : v;
}

static struct jinja_value
eval_condition(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	if (jinja_truth(jinja_eval(j, f, node->a)))
		return jinja_eval(j, f, node->b);
	if (node->c != NULL)
		return jinja_eval(j, f, node->c);
	return jinja_undefined_hint(
	    j, "the inline if-expression evaluated to false and no else section was defined.");
}

static struct jinja_value
eval_node(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value a;

	switch (node->kind) {
	case NODE_TUPLE:
	case NODE_LIST:
		return eval_list(j, f, node);
	case NODE_DICT:
		return eval_dict(j, f, node);
	case NODE_BINARY:
		a = jinja_eval(j, f, node->a);
		return jinja_binary(j, node->op, a, jinja_eval(j, f, node->b));
	case NODE_AND:
		a = jinja_eval(j, f, node->a);
		return jinja_truth(a) ? jinja_eval(j, f, node->b) : a;
	case NODE_OR:
		a = jinja_eval(j, f, node->a);
		return jinja_truth(a) ? a : jinja_eval(j, f, node->b);
	case NODE_NOT:
		return jinja_bool(!jinja_truth(jinja_eval(j, f, node->a)));
	case NODE_NEG:
	case NODE_POS:
		return jinja_negate(j, jinja_eval(j, f, node->a), node->kind == NODE_POS);
	case NODE_CONCAT:
		return node->list.count == 0 ? jinja_string("", 0) : eval_concat(j, f, node);
	case NODE_COMPARE:
		return eval_compare(j, f, node);
	case NODE_CONDITION:
		return eval_condition(j, f, node);
	case NODE_GETATTR:
		return eval_getattr(j, f, node);
	case NODE_GETITEM:
		a = jinja_eval(j, f, node->a);
		if (node->b->kind == NODE_SLICE)
			return eval_slice(j, f, node, a);
		return jinja_getitem(j, a, jinja_eval(j, f, node->b));
	case NODE_CALL:
		return eval_call(j, f, node);
	case NODE_FILTER:
		return eval_filter(j, f, node);
	case NODE_TEST:
		return eval_test(j, f, node);
	default:
		jinja_fail(j, JINJA_RUNTIME, "an expression that cannot be evaluated");
	}
}

struct jinja_value
jinja_eval(struct jinja *j, struct jinja_frame *f, const struct jinja_node *node)
{
	struct jinja_value v;

	jinja_pay(j, 0);
	if (node->kind == NODE_CONST)
		return node->value;
	if (node->kind == NODE_NAME)
		return eval_name(j, f, node);
	jinja_enter(j);
	v = eval_node(j, f, node);
	jinja_leave(j);
	return v;
}
