#include "worker/jinja/jinja_symbols.h"

#include <string.h>

static bool
same(struct jinja_value a, struct jinja_value b)
{
	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

/* Room for one more element of an arena array. */
static void *
room(struct jinja *j, void *at, size_t count, size_t *size, size_t element)
{
	void *grown;

	if (count < *size)
		return at;
	*size = *size == 0 ? 8 : *size * 2;
	grown = jinja_alloc_array(j, *size, element);
	if (count != 0)
		memcpy(grown, at, count * element);
	jinja_pay(j, count * element);
	return grown;
}

struct jinja_symbols *
jinja_symbols_new(struct jinja *j, struct jinja_symbols *parent, struct jinja_slots *slots)
{
	struct jinja_symbols *s = jinja_alloc(j, sizeof(*s));

	s->parent = parent;
	s->slots = slots;
	s->level = parent == NULL ? 0 : parent->level + 1;
	return s;
}

/* The slot that stands for a name on a level: shared by scopes beside each other. */
static uint32_t
slot_of(struct jinja *j, struct jinja_slots *f, uint32_t level, struct jinja_value name)
{
	jinja_pay(j, f->count * sizeof(*f->at));
	for (size_t i = 0; i < f->count; i++)
		if (f->at[i].level == level && same(f->at[i].name, name))
			return (uint32_t)i;
	f->at = room(j, f->at, f->count, &f->size, sizeof(*f->at));
	f->at[f->count] = (struct jinja_slot){level, name};
	return (uint32_t)f->count++;
}

static struct jinja_symbol *
own_ref(struct jinja *j, const struct jinja_symbols *s, struct jinja_value name)
{
	jinja_pay(j, s->ref_count * sizeof(*s->refs));
	for (size_t i = 0; i < s->ref_count; i++)
		if (same(s->refs[i].name, name))
			return &s->refs[i];
	return NULL;
}

static struct jinja_symbol *
find_ref(struct jinja *j, const struct jinja_symbols *s, struct jinja_value name)
{
	struct jinja_symbol *ref = NULL;

	for (; s != NULL && ref == NULL; s = s->parent)
		ref = own_ref(j, s, name);
	return ref;
}

static void
set_load(struct jinja *j, struct jinja_symbols *s, struct jinja_symbol_load load)
{
	for (size_t i = 0; i < s->load_count; i++)
		if (s->loads[i].slot == load.slot) {
			s->loads[i] = load;
			return;
		}
	s->loads = room(j, s->loads, s->load_count, &s->load_size, sizeof(*s->loads));
	s->loads[s->load_count++] = load;
}

static void
set_ref(struct jinja *j, struct jinja_symbols *s, struct jinja_symbol ref)
{
	struct jinja_symbol *old = own_ref(j, s, ref.name);

	if (old != NULL) {
		*old = ref;
		return;
	}
	s->refs = room(j, s->refs, s->ref_count, &s->ref_size, sizeof(*s->refs));
	s->refs[s->ref_count++] = ref;
}

static bool
is_stored(const struct jinja_symbols *s, struct jinja_value name)
{
	for (size_t i = 0; i < s->store_count; i++)
		if (same(s->stores[i], name))
			return true;
	return false;
}

static void
add_store(struct jinja *j, struct jinja_symbols *s, struct jinja_value name)
{
	jinja_pay(j, s->store_count * sizeof(*s->stores));
	if (is_stored(s, name))
		return;
	s->stores = room(j, s->stores, s->store_count, &s->store_size, sizeof(*s->stores));
	s->stores[s->store_count++] = name;
}

static uint32_t
define(struct jinja *j, struct jinja_symbols *s, struct jinja_symbol_load load)
{
	load.slot = slot_of(j, s->slots, s->level, load.name);
	set_ref(j, s, (struct jinja_symbol){load.name, s->slots->depth, load.slot});
	set_load(j, s, load);
	return load.slot;
}

static void
store(struct jinja *j, struct jinja_symbols *s, struct jinja_value name)
{
	struct jinja_symbol *outer = NULL;

	add_store(j, s, name);
	if (own_ref(j, s, name) != NULL)
		return;
	if (s->parent != NULL)
		outer = find_ref(j, s->parent, name);
	if (outer != NULL)
		define(j, s,
		    (struct jinja_symbol_load){.kind = SYMBOL_ALIAS, .name = name, .from = *outer});
	else
		define(j, s, (struct jinja_symbol_load){.kind = SYMBOL_MISSING, .name = name});
}

static void
load(struct jinja *j, struct jinja_symbols *s, struct jinja_value name)
{
	if (find_ref(j, s, name) == NULL)
		define(j, s, (struct jinja_symbol_load){.kind = SYMBOL_CONTEXT, .name = name});
}

uint32_t
jinja_symbols_parameter(struct jinja *j, struct jinja_symbols *s, struct jinja_value name)
{
	add_store(j, s, name);
	return define(j, s, (struct jinja_symbol_load){.kind = SYMBOL_PARAMETER, .name = name});
}

void
jinja_symbols_target(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node)
{
	if (node->kind == NODE_NAME)
		jinja_symbols_parameter(j, s, node->value);
	for (size_t i = 0; i < node->list.count; i++)
		jinja_symbols_target(j, s, node->list.at[i]);
}

static struct jinja_symbols *
copy(struct jinja *j, const struct jinja_symbols *s)
{
	struct jinja_symbols *c = jinja_alloc(j, sizeof(*c));

	*c = *s;
	c->refs = jinja_alloc_array(j, s->ref_size, sizeof(*s->refs));
	c->loads = jinja_alloc_array(j, s->load_size, sizeof(*s->loads));
	c->stores = jinja_alloc_array(j, s->store_size, sizeof(*s->stores));
	jinja_pay(j, s->ref_count * sizeof(*s->refs) + s->load_count * sizeof(*s->loads));
	if (s->ref_count != 0)
		memcpy(c->refs, s->refs, s->ref_count * sizeof(*s->refs));
	if (s->load_count != 0)
		memcpy(c->loads, s->loads, s->load_count * sizeof(*s->loads));
	if (s->store_count != 0)
		memcpy(c->stores, s->stores, s->store_count * sizeof(*s->stores));
	return c;
}

/* What the branches of an `if` did becomes what the scope does: a name that only some of them
   assigned starts as what it was outside. */
static void
merge(struct jinja *j, struct jinja_symbols *s, struct jinja_symbols *const branches[3])
{
	struct jinja_symbols before = *s;

	for (int b = 0; b < 3; b++) {
		const struct jinja_symbols *from = branches[b];

		for (size_t i = 0; i < from->ref_count; i++)
			set_ref(j, s, from->refs[i]);
		for (size_t i = 0; i < from->load_count; i++)
			set_load(j, s, from->loads[i]);
		jinja_pay(j, from->load_count * s->load_count * 8);
		for (size_t i = 0; i < from->store_count; i++)
			add_store(j, s, from->stores[i]);
	}
	for (size_t i = before.store_count; i < s->store_count; i++) {
		struct jinja_value name = s->stores[i];
		struct jinja_symbol *ref = find_ref(j, s, name), *outer = NULL;

		if (s->parent != NULL)
			outer = find_ref(j, s->parent, name);
		if (outer != NULL)
			set_load(j, s,
			    (struct jinja_symbol_load){SYMBOL_ALIAS, ref->slot, name, *outer});
		else
			set_load(j, s,
			    (struct jinja_symbol_load){
				.kind = SYMBOL_CONTEXT, .slot = ref->slot, .name = name});
	}
}

static void
visit_if(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node)
{
	const struct jinja_nodes *parts[3] = {&node->body, &node->more, &node->other};
	struct jinja_symbols *branches[3];

	jinja_symbols_visit(j, s, node->a);
	for (int b = 0; b < 3; b++) {
		branches[b] = copy(j, s);
		jinja_symbols_visit_all(j, branches[b], parts[b]);
	}
	merge(j, s, branches);
}

void
jinja_symbols_visit_all(struct jinja *j, struct jinja_symbols *s, const struct jinja_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++)
		jinja_symbols_visit(j, s, nodes->at[i]);
}

static void
visit_expression(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node)
{
	jinja_symbols_visit(j, s, node->a);
	jinja_symbols_visit(j, s, node->b);
	jinja_symbols_visit(j, s, node->c);
	jinja_symbols_visit_all(j, s, &node->list);
	if (node->args != NULL) {
		jinja_symbols_visit_all(j, s, &node->args->list);
		jinja_symbols_visit_all(j, s, &node->args->keywords);
		jinja_symbols_visit(j, s, node->args->dyn_args);
		jinja_symbols_visit(j, s, node->args->dyn_kwargs);
	}
}

void
jinja_symbols_visit(struct jinja *j, struct jinja_symbols *s, const struct jinja_node *node)
{
	if (node == NULL)
		return;
	jinja_pay(j, 0);
	switch (node->kind) {
	case NODE_NAME:
		if (node->store)
			store(j, s, node->value);
		else
			load(j, s, node->value);
		break;
	case NODE_NSREF:
		load(j, s, node->value);
		break;
	case NODE_IF:
		visit_if(j, s, node);
		break;
	case NODE_MACRO:
		store(j, s, node->value);
		break;
	case NODE_SET:
		jinja_symbols_visit(j, s, node->b);
		jinja_symbols_visit(j, s, node->a);
		break;
	case NODE_SET_BLOCK:
		jinja_symbols_visit(j, s, node->a);
		break;
	case NODE_WITH:
		jinja_symbols_visit_all(j, s, &node->more);
		break;
	case NODE_FOR:
	case NODE_CALL_BLOCK:
	case NODE_FILTER_BLOCK:
		jinja_symbols_visit(j, s, node->b);
		break;
	case NODE_GENERATION:
	case NODE_BLOCK:
	case NODE_AUTOESCAPE:
		break;
	default:
		visit_expression(j, s, node);
	}
}

struct jinja_ref
jinja_symbols_ref(struct jinja *j, struct jinja_symbols *s, struct jinja_value name)
{
	struct jinja_symbol *ref = find_ref(j, s, name);

	if (ref == NULL) {
		load(j, s, name);
		ref = own_ref(j, s, name);
	}
	return (struct jinja_ref){s->slots->depth - ref->depth, ref->slot};
}

void
jinja_symbols_scope(struct jinja *j, const struct jinja_symbols *s, struct jinja_scope *out)
{
	out->loads = jinja_alloc_array(j, s->load_count, sizeof(*out->loads));
	out->slots = jinja_alloc_array(j, s->load_count, sizeof(*out->slots));
	for (size_t i = 0; i < s->load_count; i++) {
		const struct jinja_symbol_load *from = &s->loads[i];
		struct jinja_load *to = &out->loads[out->count];

		out->slots[out->slot_count++] = from->slot;
		if (from->kind == SYMBOL_PARAMETER)
			continue;
		to->slot = from->slot;
		to->name = from->name;
		to->kind = from->kind == SYMBOL_MISSING	  ? LOAD_MISSING
			   : from->kind == SYMBOL_CONTEXT ? LOAD_CONTEXT
							  : LOAD_ALIAS;
		if (to->kind == LOAD_ALIAS)
			to->from =
			    (struct jinja_ref){s->slots->depth - from->from.depth, from->from.slot};
		out->count++;
	}
}
