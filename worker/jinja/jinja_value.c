#include "worker/jinja/jinja_value.h"

#include <math.h>
#include <string.h>

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_repr.h"

struct jinja_value
jinja_string_copy(struct jinja *j, const char *text, size_t len)
{
	char *copy = jinja_alloc(j, len);

	jinja_pay(j, len);
	if (len != 0)
		memcpy(copy, text, len);
	return jinja_string(copy, len);
}

struct jinja_value
jinja_capture(struct jinja *j, size_t from)
{
	struct jinja_value v = from == j->out_len
				   ? jinja_string("", 0)
				   : jinja_string_copy(j, j->out + from, j->out_len - from);

	j->out_len = from;
	return v;
}

struct jinja_list *
jinja_list_new(struct jinja *j, size_t size)
{
	struct jinja_list *list = jinja_alloc(j, sizeof(*list));
	size_t bytes;

	if (size < 2)
		size = 2;
	if (__builtin_mul_overflow(size, sizeof(struct jinja_value), &bytes))
		bytes = JINJA_MEMORY_MAX;
	list->items = jinja_alloc(j, sizeof(*list->items) + bytes);
	list->items->size = size;
	list->at = list->items->at;
	return list;
}

void
jinja_append(struct jinja *j, struct jinja_list *list, struct jinja_value v)
{
	struct jinja_items *items = list->items;

	if (items == NULL || list->at + list->count != items->at + items->used ||
	    items->used == items->size) {
		size_t size = list->count < 2 ? 4 : list->count * 2;

		items = jinja_alloc(j, sizeof(*items) + size * sizeof(struct jinja_value));
		items->size = size;
		items->used = list->count;
		if (list->count != 0)
			memcpy(items->at, list->at, list->count * sizeof(struct jinja_value));
		jinja_pay(j, list->count * sizeof(struct jinja_value));
		list->items = items;
		list->at = items->at;
	}
	items->at[items->used++] = v;
	list->count++;
}

struct jinja_value
jinja_undefined_name(struct jinja *j, struct jinja_value name)
{
	struct jinja_undefined *u = jinja_alloc(j, sizeof(*u));

	u->name = name;
	return JINJA_VALUE(UNDEFINED, undefined, u);
}

struct jinja_value
jinja_undefined_hint(struct jinja *j, const char *hint)
{
	struct jinja_undefined *u = jinja_alloc(j, sizeof(*u));

	u->hint = hint;
	return JINJA_VALUE(UNDEFINED, undefined, u);
}

struct jinja_value
jinja_undefined_of(struct jinja *j, struct jinja_value object, struct jinja_value name, bool unsafe)
{
	struct jinja_undefined *u = jinja_alloc(j, sizeof(*u));

	u->has_object = true;
	u->unsafe = unsafe;
	u->object = object;
	u->name = name;
	return JINJA_VALUE(UNDEFINED, undefined, u);
}

_Noreturn void
jinja_fail_undefined(struct jinja *j, struct jinja_value v)
{
	const struct jinja_undefined *u = v.undefined;
	struct jinja_value name;
	const char *type;

	if (u == NULL || u->hint != NULL)
		jinja_fail(j, JINJA_RUNTIME, "%s", u == NULL ? "undefined" : u->hint);
	name = jinja_to_repr(j, u->name);
	if (name.len > 200)
		name.len = 200;
	if (!u->has_object)
		jinja_fail(j, JINJA_RUNTIME, "%.*s is undefined", (int)name.len, name.text);
	type = u->object.type == JINJA_NONE ? "None" : jinja_type_name(u->object);
	if (u->unsafe)
		jinja_fail(j, JINJA_RUNTIME, "access to attribute %.*s of '%s' object is unsafe.",
		    (int)name.len, name.text, type);
	if (u->name.type != JINJA_STRING)
		jinja_fail(j, JINJA_RUNTIME, "%s%s has no element %.*s", type,
		    u->object.type == JINJA_NONE ? "" : " object", (int)name.len, name.text);
	jinja_fail(j, JINJA_RUNTIME, "'%s%s' has no attribute %.*s", type,
	    u->object.type == JINJA_NONE ? "" : " object", (int)name.len, name.text);
}

_Noreturn void
jinja_fail_type(struct jinja *j, const char *format, struct jinja_value v)
{
	if (v.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, v);
		/* The format is one of ours, with a single %s. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	jinja_fail(j, JINJA_RUNTIME, format, jinja_type_name(v));
#pragma GCC diagnostic pop
}

const char *
jinja_type_name(struct jinja_value v)
{
#define NAME(name, python) [JINJA_##name] = python,
	static const char *const names[] = {JINJA_TYPE_LIST(NAME)};
#undef NAME

	return v.type == JINJA_STRING && (v.flags & JINJA_MARKUP) != 0 ? "Markup" : names[v.type];
}

bool
jinja_truth(struct jinja_value v)
{
	switch (v.type) {
	case JINJA_MISSING:
	case JINJA_UNDEFINED:
	case JINJA_NONE:
		return false;
	case JINJA_BOOL:
		return v.boolean;
	case JINJA_INT:
		return v.integer != 0;
	case JINJA_FLOAT:
		return v.number != 0;
	case JINJA_STRING:
		return v.len != 0;
	case JINJA_LIST:
	case JINJA_TUPLE:
		return v.list->count != 0;
	case JINJA_DICT:
	case JINJA_KEYS:
	case JINJA_VALUES:
	case JINJA_ITEMS:
		return v.dict->count != 0;
	case JINJA_RANGE:
		return v.range->count != 0;
	default: /* a generator, too, whatever it would give */
		return true;
	}
}

bool
jinja_string_is(struct jinja_value v, const char *text)
{
	return v.type == JINJA_STRING && v.len == strlen(text) && memcmp(v.text, text, v.len) == 0;
}

bool
jinja_is_integer(struct jinja_value v)
{
	return v.type == JINJA_INT || v.type == JINJA_BOOL || v.type == JINJA_BIG;
}

bool
jinja_is_number(struct jinja_value v)
{
	return jinja_is_integer(v) || v.type == JINJA_FLOAT;
}

static bool
lists_equal(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
	bool equal = a->count == b->count;

	jinja_enter(j);
	for (size_t i = 0; equal && i < a->count; i++)
		equal = jinja_equal(j, a->at[i], b->at[i]);
	jinja_leave(j);
	return equal;
}

static bool
dicts_equal(struct jinja *j, const struct jinja_dict *a, const struct jinja_dict *b)
{
	bool equal = a->count == b->count;

	jinja_enter(j);
	for (size_t i = 0; equal && i < a->count; i++) {
		const struct jinja_value *v = jinja_dict_get(j, b, a->entries[i].key);

		equal = v != NULL && jinja_equal(j, a->entries[i].value, *v);
	}
	jinja_leave(j);
	return equal;
}

bool
jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	jinja_pay(j, 0);
	if (jinja_is_number(a) && jinja_is_number(b))
		return jinja_number_compare(a, b) == 0;
	if (a.type != b.type)
		return false;
	switch (a.type) {
	case JINJA_UNDEFINED:
	case JINJA_NONE:
		return true;
	case JINJA_STRING:
		jinja_pay(j, a.len);
		return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
	case JINJA_LIST:
	case JINJA_TUPLE:
		return a.list == b.list || lists_equal(j, a.list, b.list);
	case JINJA_DICT:
		return a.dict == b.dict || dicts_equal(j, a.dict, b.dict);
	case JINJA_RANGE:
		return a.range->count == b.range->count &&
		       (a.range->count == 0 ||
			   (a.range->start == b.range->start &&
			       (a.range->count == 1 || a.range->step == b.range->step)));
	default: /* the same object */
		return memcmp(&a.integer, &b.integer, sizeof(a.integer)) == 0;
	}
}

static bool
lists_less(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
	bool less;
	size_t i = 0;

	jinja_enter(j);
	while (i < a->count && i < b->count && jinja_equal(j, a->at[i], b->at[i]))
		i++;
	less =
	    i < a->count && i < b->count ? jinja_less(j, a->at[i], b->at[i]) : a->count < b->count;
	jinja_leave(j);
	return less;
}

bool
jinja_less(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	jinja_pay(j, 0);
	if (jinja_is_number(a) && jinja_is_number(b))
		return jinja_number_compare(a, b) == -1;
	if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, a.type == JINJA_UNDEFINED ? a : b);
	if (a.type == JINJA_STRING && b.type == JINJA_STRING) {
		int order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

		jinja_pay(j, a.len);
		return order != 0 ? order < 0 : a.len < b.len;
	}
	if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE))
		return lists_less(j, a.list, b.list);
	jinja_fail(j, JINJA_RUNTIME, "'<' not supported between instances of '%s' and '%s'",
	    jinja_type_name(a), jinja_type_name(b));
}

int64_t
jinja_to_int64(struct jinja *j, struct jinja_value v, const char *what)
{
	if (v.type == JINJA_BOOL)
		return v.boolean;
	if (v.type == JINJA_INT)
		return v.integer;
	if (v.type == JINJA_BIG)
		jinja_fail(j, JINJA_RUNTIME, "%s: the integer is too large", what);
	if (v.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, v);
	jinja_fail(j, JINJA_RUNTIME, "%s: '%s' object cannot be interpreted as an integer", what,
	    jinja_type_name(v));
}
