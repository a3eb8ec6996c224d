#include "worker/jinja/jinja_method.h"

#include <math.h>
#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_ops.h"

typedef struct jinja_value method(
    struct jinja *j, struct jinja_value self, const struct jinja_args *args);

static struct jinja_value
index_of(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	struct jinja_value a[3], all = self;
	const struct jinja_list *list;
	int64_t base = 0;

	jinja_bind(j, "index", args, NULL, 3, 1, a);
	if (a[1].type != JINJA_MISSING) {
		int64_t count = jinja_length(j, self);

		base = jinja_to_int64(j, a[1], "an index");
		base = base < 0 ? base + count : base;
		base = base < 0 ? 0 : base > count ? count : base;
		all = jinja_slice(j, self, jinja_int(base), a[2], jinja_none());
	}
	list = jinja_to_list(j, all);
	for (size_t i = 0; i < list->count; i++)
		if (jinja_equal(j, list->at[i], a[0]))
			return jinja_int(base + (int64_t)i);
	jinja_fail(j, JINJA_RUNTIME, "the value is not in the %s", jinja_type_name(self));
}

static struct jinja_value
count_of(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	const struct jinja_list *list = jinja_to_list(j, self);
	struct jinja_value item;
	int64_t count = 0;

	jinja_bind(j, "count", args, NULL, 1, 1, &item);
	for (size_t i = 0; i < list->count; i++)
		count += jinja_equal(j, list->at[i], item);
	return jinja_int(count);
}

/* Nothing changes a list or a dict here, so a copy is the same one. */
static struct jinja_value
copy_method(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "copy", args, NULL, 0, 0, NULL);
	return self;
}

static struct jinja_value
dict_get(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	struct jinja_value a[2], *v;

	jinja_bind(j, "get", args, NULL, 2, 1, a);
	v = jinja_dict_get(j, self.dict, a[0]);
	if (v != NULL)
		return *v;
	return a[1].type == JINJA_MISSING ? jinja_none() : a[1];
}

static struct jinja_value
dict_items(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "items", args, NULL, 0, 0, NULL);
	return JINJA_VALUE(ITEMS, dict, self.dict);
}

static struct jinja_value
dict_keys(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "keys", args, NULL, 0, 0, NULL);
	return JINJA_VALUE(KEYS, dict, self.dict);
}

static struct jinja_value
dict_values(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "values", args, NULL, 0, 0, NULL);
	return JINJA_VALUE(VALUES, dict, self.dict);
}

static struct jinja_value
dict_from_keys(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	struct jinja_dict *d = jinja_dict_new(j, 4);
	struct jinja_value a[2], key;
	struct jinja_iterator *it;

	(void)self;
	jinja_bind(j, "fromkeys", args, NULL, 2, 1, a);
	it = jinja_iterate(j, a[0]);
	while (jinja_iterator_next(j, it, &key))
		jinja_dict_set(j, d, key, a[1].type == JINJA_MISSING ? jinja_none() : a[1]);
	return JINJA_VALUE(DICT, dict, d);
}

static struct jinja_value
bit_length(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "bit_length", args, NULL, 0, 0, NULL);
	return jinja_int((int64_t)jinja_int_bits(self));
}

static struct jinja_value
conjugate(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "conjugate", args, NULL, 0, 0, NULL);
	return jinja_negate(j, self, true);
}

static struct jinja_value
is_integer(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "is_integer", args, NULL, 0, 0, NULL);
	return jinja_bool(isfinite(self.number) && floor(self.number) == self.number);
}

static struct jinja_value
loop_cycle(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	if (args->count == 0)
		jinja_fail(j, JINJA_RUNTIME, "no items for cycling given");
	return args->at[(size_t)self.loop->index0 % args->count];
}

static struct jinja_value
loop_changed(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	struct jinja_list *now = jinja_list_new(j, args->count);
	const struct jinja_list *last = self.loop->changed;

	for (size_t i = 0; i < args->count; i++)
		jinja_append(j, now, args->at[i]);
	self.loop->changed = now;
	return jinja_bool(last == NULL || !jinja_equal(j, JINJA_VALUE(TUPLE, list, last),
					      JINJA_VALUE(TUPLE, list, now)));
}

static struct jinja_value
cycler_next(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	struct jinja_cycler *c = self.cycler;
	struct jinja_value v = c->items->at[c->at];

	jinja_bind(j, "next", args, NULL, 0, 0, NULL);
	c->at = (c->at + 1) % c->items->count;
	return v;
}

static struct jinja_value
cycler_reset(struct jinja *j, struct jinja_value self, const struct jinja_args *args)
{
	jinja_bind(j, "reset", args, NULL, 0, 0, NULL);
	self.cycler->at = 0;
	return jinja_none();
}

static const struct jinja_method_entry list_methods[] = {
    {"index", index_of, false},
    {"count", count_of, false},
    {"copy", copy_method, false},
    {"append", NULL, true},
    {"clear", NULL, true},
    {"pop", NULL, true},
    {"reverse", NULL, true},
    {"insert", NULL, true},
    {"sort", NULL, true},
    {"extend", NULL, true},
    {"remove", NULL, true},
    {NULL, NULL, false},
};
static const struct jinja_method_entry sequence_methods[] = {
    {"index", index_of, false}, {"count", count_of, false}, {NULL, NULL, false}};
static const struct jinja_method_entry dict_methods[] = {
    {"get", dict_get, false},
    {"items", dict_items, false},
    {"keys", dict_keys, false},
    {"values", dict_values, false},
    {"copy", copy_method, false},
    {"fromkeys", dict_from_keys, false},
    {"clear", NULL, true},
    {"pop", NULL, true},
    {"popitem", NULL, true},
    {"setdefault", NULL, true},
    {"update", NULL, true},
    {NULL, NULL, false},
};
static const struct jinja_method_entry int_methods[] = {
    {"bit_length", bit_length, false},
    {"conjugate", conjugate, false},
    {"bit_count", NULL, false},
    {"to_bytes", NULL, false},
    {"from_bytes", NULL, false},
    {"as_integer_ratio", NULL, false},
    {NULL, NULL, false},
};
static const struct jinja_method_entry float_methods[] = {
    {"is_integer", is_integer, false},
    {"conjugate", conjugate, false},
    {"hex", NULL, false},
    {"fromhex", NULL, false},
    {"as_integer_ratio", NULL, false},
    {NULL, NULL, false},
};
static const struct jinja_method_entry loop_methods[] = {
    {"cycle", loop_cycle, false}, {"changed", loop_changed, false}, {NULL, NULL, false}};
static const struct jinja_method_entry cycler_methods[] = {
    {"next", cycler_next, false}, {"reset", cycler_reset, false}, {NULL, NULL, false}};

static const struct jinja_method_entry *
find(const struct jinja_method_entry *table, struct jinja_value name)
{
	for (; table->name != NULL; table++)
		if (table->name[0] == name.text[0] && jinja_string_is(name, table->name))
			return table;
	return NULL;
}

static const struct jinja_method_entry *
find_text(struct jinja_value name)
{
	const struct jinja_method_entry *const tables[] = {
	    jinja_text_methods, jinja_split_methods, jinja_case_methods, jinja_layout_methods};
	const struct jinja_method_entry *entry = NULL;

	for (size_t i = 0; entry == NULL && i < sizeof(tables) / sizeof(*tables); i++)
		entry = find(tables[i], name);
	return entry;
}

const struct jinja_method_entry *
jinja_method_find(struct jinja_value self, struct jinja_value name)
{
	if (name.len == 0)
		return NULL;
	switch (self.type) {
	case JINJA_STRING:
		return find_text(name);
	case JINJA_LIST:
		return find(list_methods, name);
	case JINJA_TUPLE:
	case JINJA_RANGE:
		return find(sequence_methods, name);
	case JINJA_DICT:
		return find(dict_methods, name);
	case JINJA_BOOL:
	case JINJA_INT:
	case JINJA_BIG:
		return find(int_methods, name);
	case JINJA_FLOAT:
		return find(float_methods, name);
	case JINJA_LOOP:
		return find(loop_methods, name);
	case JINJA_CYCLER:
		return find(cycler_methods, name);
	default:
		return NULL;
	}
}

bool
jinja_dict_has_method(struct jinja_value name)
{
	return name.len > 0 && find(dict_methods, name) != NULL;
}
