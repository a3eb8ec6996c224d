#include "worker/jinja/jinja_ast.h"

#include <string.h>

struct jinja_node *
jinja_node_new(struct jinja *j, enum jinja_node_kind kind, uint32_t line)
{
	struct jinja_node *node = jinja_alloc(j, sizeof(*node));

	node->kind = (uint8_t)kind;
	node->line = line;
	node->depth = 1;
	return node;
}

void
jinja_nodes_add(struct jinja *j, struct jinja_nodes *nodes, struct jinja_node *node)
{
	if (nodes->count == nodes->size) {
		size_t size = nodes->size == 0 ? 4 : nodes->size * 2;
		struct jinja_node **at = jinja_alloc_array(j, size, sizeof(struct jinja_node *));

		if (nodes->count != 0)
			memcpy(at, nodes->at, nodes->count * sizeof(struct jinja_node *));
		nodes->at = at;
		nodes->size = size;
	}
	nodes->at[nodes->count++] = node;
}

struct jinja_node *
jinja_adopt(struct jinja *j, struct jinja_node *parent, struct jinja_node *child)
{
	if (child != NULL && child->depth + 1 > parent->depth)
		parent->depth = child->depth + 1;
	if (parent->depth > JINJA_NEST_MAX) {
		j->line = parent->line;
		jinja_fail(j, JINJA_SYNTAX, "nested too deeply");
	}
	return child;
}
