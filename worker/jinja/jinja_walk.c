#include "worker/jinja/jinja_walk.h"

/* Walks in Jinja's order of children; true when the name was read, *stop when it was assigned. */
static bool
reads(struct jinja *j, const struct jinja_node *node, const char *name, bool *stop)
{
	const struct jinja_arguments *args;

	if (node == NULL || *stop || node->kind == NODE_BLOCK)
		return false;
	jinja_pay(j, 0);
	if (node->kind == NODE_NAME && jinja_string_is(node->value, name)) {
		*stop = node->store;
		return !node->store;
	}
	if (node->kind == NODE_CALL_BLOCK && reads(j, node->b, name, stop))
		return true;
	if (node->function != NULL) {
		for (size_t i = 0; i < node->function->parameters.count; i++)
			*stop |= jinja_string_is(node->function->parameters.at[i]->value, name);
		for (size_t i = 0; i < node->function->defaults.count; i++)
			if (reads(j, node->function->defaults.at[i], name, stop))
				return true;
	}
	if (reads(j, node->a, name, stop) ||
	    (node->kind != NODE_FILTER_BLOCK && node->kind != NODE_CALL_BLOCK &&
		reads(j, node->b, name, stop)))
		return true;
	const struct jinja_nodes *lists[] = {&node->list, &node->more, &node->body, &node->other};

	if (node->kind == NODE_IF) {
		lists[1] = &node->body;
		lists[2] = &node->more;
	}
	for (size_t k = 0; k < 4; k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			if (reads(j, lists[k]->at[i], name, stop))
				return true;
	if (reads(j, node->c, name, stop) ||
	    (node->kind == NODE_FILTER_BLOCK && reads(j, node->b, name, stop)))
		return true;
	if ((args = node->args) == NULL)
		return false;
	for (size_t i = 0; i < args->list.count; i++)
		if (reads(j, args->list.at[i], name, stop))
			return true;
	for (size_t i = 0; i < args->keywords.count; i++)
		if (reads(j, args->keywords.at[i], name, stop))
			return true;
	return reads(j, args->dyn_args, name, stop) || reads(j, args->dyn_kwargs, name, stop);
}

bool
jinja_reads(struct jinja *j, const struct jinja_nodes *nodes, const char *name)
{
	bool stop = false;

	for (size_t i = 0; i < nodes->count; i++)
		if (reads(j, nodes->at[i], name, &stop))
			return true;
	return false;
}

/* Whether Jinja evaluates an expression when it compiles. */
bool
jinja_is_constant(struct jinja *j, const struct jinja_node *node)
{
	if (node == NULL)
		return true;
	jinja_pay(j, 0);
	if (node->kind == NODE_NAME || node->kind == NODE_CALL)
		return false;
	if (!jinja_is_constant(j, node->a) || !jinja_is_constant(j, node->b) ||
	    !jinja_is_constant(j, node->c))
		return false;
	for (size_t i = 0; i < node->list.count; i++)
		if (!jinja_is_constant(j, node->list.at[i]))
			return false;
	for (size_t i = 0; node->args != NULL && i < node->args->list.count; i++)
		if (!jinja_is_constant(j, node->args->list.at[i]))
			return false;
	for (size_t i = 0; node->args != NULL && i < node->args->keywords.count; i++)
		if (!jinja_is_constant(j, node->args->keywords.at[i]))
			return false;
	return node->args == NULL || (jinja_is_constant(j, node->args->dyn_args) &&
					 jinja_is_constant(j, node->args->dyn_kwargs));
}
