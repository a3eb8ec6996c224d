#include <string.h>

#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_unicode.h"

static bool
range_contains(struct jinja *j, const struct jinja_range *r, struct jinja_value item)
{
	if (item.type == JINJA_FLOAT)
		item = item.number == (double)(int64_t)item.number
			   ? jinja_int_from_double(j, item.number)
			   : jinja_none();
	if (item.type == JINJA_BOOL)
		item = jinja_int(item.boolean);
	if (item.type != JINJA_INT || r->count == 0)
		return false;
	for (size_t i = 0; i < r->count; i++)
		if (r->start + (int64_t)i * r->step == item.integer)
			return true;
	return false;
}

bool
jinja_contains(struct jinja *j, struct jinja_value item, struct jinja_value in)
{
	struct jinja_iterator *it;
	struct jinja_value each;

	if (in.type == JINJA_STRING) {
		if (item.type != JINJA_STRING)
			jinja_fail_type(
			    j, "'in <string>' requires string as left operand, not %s", item);
		jinja_pay(j, in.len);
		return item.len == 0 || memmem(in.text, in.len, item.text, item.len) != NULL;
	}
	if (in.type == JINJA_DICT || in.type == JINJA_KEYS)
		return jinja_dict_get(j, in.dict, item) != NULL;
	if (in.type == JINJA_RANGE)
		return range_contains(j, in.range, item);
	if (!jinja_is_iterable(in))
		jinja_fail_type(j, "argument of type '%s' is not iterable", in);
	it = jinja_iterate(j, in);
	while (jinja_iterator_next(j, it, &each))
		if (jinja_equal(j, each, item))
			return true;
	return false;
}

int64_t
jinja_length(struct jinja *j, struct jinja_value v)
{
	switch (v.type) {
	case JINJA_UNDEFINED:
		return 0;
	case JINJA_STRING:
		jinja_pay(j, v.len);
		return (int64_t)jinja_chars(v.text, v.len);
	case JINJA_LIST:
	case JINJA_TUPLE:
		return (int64_t)v.list->count;
	case JINJA_DICT:
	case JINJA_KEYS:
	case JINJA_VALUES:
	case JINJA_ITEMS:
		return (int64_t)v.dict->count;
	case JINJA_RANGE:
		return (int64_t)v.range->count;
	case JINJA_LOOP:
		return jinja_loop_length(j, v.loop);
	default:
		return -1;
	}
}

/* The element at a Python index, or false. */
static bool
element(struct jinja *j, struct jinja_value obj, struct jinja_value key, struct jinja_value *out)
{
	int64_t count, i;
	size_t at, len;

	if (key.type != JINJA_INT && key.type != JINJA_BOOL)
		return false;
	i = jinja_to_int64(j, key, "an index");
	if (obj.type == JINJA_STRING && i == 0 && obj.len > 0) {
		count = 1; /* s[0] needs no counting */
	} else {
		count = jinja_length(j, obj);
	}
	if (i < 0)
		i += count;
	if (i < 0 || i >= count)
		return false;
	if (obj.type == JINJA_RANGE) {
		*out = jinja_int(obj.range->start + i * obj.range->step);
	} else if (obj.type == JINJA_STRING) {
		jinja_pay(j, obj.len);
		at = jinja_char_offset(obj.text, obj.len, (size_t)i);
		jinja_decode(obj.text + at, obj.len - at, &len);
		*out = jinja_string(obj.text + at, len);
		out->flags = obj.flags & JINJA_MARKUP;
	} else {
		*out = obj.list->at[i];
	}
	return true;
}

/* obj[key] of Python, false where it raises a TypeError or a LookupError. */
static bool
subscript(struct jinja *j, struct jinja_value obj, struct jinja_value key, struct jinja_value *out)
{
	const struct jinja_value *v;

	switch (obj.type) {
	case JINJA_UNDEFINED:
		jinja_fail_undefined(j, obj);
	case JINJA_DICT:
		if (key.type == JINJA_LIST || key.type == JINJA_DICT)
			return false;
		v = jinja_dict_get(j, obj.dict, key);
		if (v != NULL)
			*out = *v;
		return v != NULL;
	case JINJA_LIST:
	case JINJA_TUPLE:
	case JINJA_STRING:
	case JINJA_RANGE:
		return element(j, obj, key, out);
	default:
		return false;
	}
}

/* Attributes every Python object has: the sandbox shows none of them. */
static bool
is_dunder(struct jinja_value name)
{
	static const char *const names[] = {"class", "doc", "init", "new", "dict", "repr", "str",
	    "hash", "eq", "ne", "lt", "le", "gt", "ge", "len", "iter", "getitem", "contains",
	    "getattribute", "setattr", "delattr", "dir", "format", "reduce", "reduce_ex", "sizeof",
	    "subclasshook", "init_subclass", "module", "call", "globals", "code", "self", "func",
	    "name", "qualname", "getstate", "add", "mul", "mod"};

	if (name.len < 5 || memcmp(name.text, "__", 2) != 0 ||
	    memcmp(name.text + name.len - 2, "__", 2) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (jinja_string_is(jinja_string(name.text + 2, name.len - 4), names[i]))
			return true;
	return false;
}

static bool
macro_attribute(
    struct jinja *j, const struct jinja_macro *m, struct jinja_value name, struct jinja_value *out)
{
	const struct jinja_function *f = m->function;
	struct jinja_list *list;

	if (jinja_string_is(name, "name")) {
		*out = f->name;
	} else if (jinja_string_is(name, "catch_kwargs")) {
		*out = jinja_bool(f->takes_kwargs);
	} else if (jinja_string_is(name, "catch_varargs")) {
		*out = jinja_bool(f->takes_varargs);
	} else if (jinja_string_is(name, "caller")) {
		*out = jinja_bool(f->takes_caller);
	} else if (jinja_string_is(name, "arguments")) {
		list = jinja_list_new(j, f->parameters.count);
		for (size_t i = 0; i < f->parameters.count; i++)
			jinja_append(j, list, f->parameters.at[i]->value);
		*out = JINJA_VALUE(TUPLE, list, list);
	} else {
		return false;
	}
	return true;
}

/* Attributes that are values, not methods. */
static bool
data_attribute(
    struct jinja *j, struct jinja_value obj, struct jinja_value name, struct jinja_value *out)
{
	const struct jinja_value *v;

	switch (obj.type) {
	case JINJA_NAMESPACE:
		v = jinja_dict_get(j, obj.dict, name);
		if (v != NULL)
			*out = *v;
		return v != NULL;
	case JINJA_LOOP:
		return jinja_loop_attribute(j, obj.loop, name, out);
	case JINJA_MACRO:
		return macro_attribute(j, obj.macro, name, out);
	case JINJA_TUPLE:
		if (!(obj.flags & JINJA_GROUP) ||
		    (!jinja_string_is(name, "grouper") && !jinja_string_is(name, "list")))
			return false;
		*out = obj.list->at[name.text[0] == 'l'];
		return true;
	case JINJA_RANGE:
		*out = jinja_int(name.text[0] != 's'		  ? 0
				 : jinja_string_is(name, "start") ? obj.range->start
				 : jinja_string_is(name, "stop")  ? obj.range->stop
								  : obj.range->step);
		return jinja_string_is(name, "start") || jinja_string_is(name, "stop") ||
		       jinja_string_is(name, "step");
	case JINJA_CYCLER:
		if (!jinja_string_is(name, "current"))
			return false;
		*out = obj.cycler->items->at[obj.cycler->at];
		return true;
	case JINJA_BOOL:
	case JINJA_INT:
	case JINJA_BIG:
	case JINJA_FLOAT:
		if (jinja_string_is(name, "real"))
			*out = jinja_negate(j, obj, true);
		else if (jinja_string_is(name, "imag"))
			*out = obj.type == JINJA_FLOAT ? jinja_float(0) : jinja_int(0);
		else if (obj.type != JINJA_FLOAT && jinja_string_is(name, "numerator"))
			*out = jinja_negate(j, obj, true);
		else if (obj.type != JINJA_FLOAT && jinja_string_is(name, "denominator"))
			*out = jinja_int(1);
		else
			return false;
		return true;
	default:
		return false;
	}
}

bool
jinja_attribute(
    struct jinja *j, struct jinja_value obj, struct jinja_value name, struct jinja_value *out)
{
	const struct jinja_method_entry *entry;
	struct jinja_method *method;

	if (obj.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, obj);
	if (name.len == 0)
		return false;
	if (data_attribute(j, obj, name, out))
		return true;
	if (obj.type == JINJA_NAMESPACE)
		return false;
	entry = jinja_method_find(obj, name);
	if (entry == NULL) {
		if (!is_dunder(name))
			return false;
		*out = jinja_undefined_of(j, obj, name, true);
		return true;
	}
	if (entry->unsafe) {
		*out = jinja_undefined_of(j, obj, name, true);
		return true;
	}
	method = jinja_alloc(j, sizeof(*method));
	method->entry = entry;
	method->self = obj;
	*out = JINJA_VALUE(METHOD, method, method);
	return true;
}

struct jinja_value
jinja_getattr(struct jinja *j, struct jinja_value obj, struct jinja_value name)
{
	struct jinja_value v;

	if (jinja_attribute(j, obj, name, &v) || subscript(j, obj, name, &v))
		return v;
	return jinja_undefined_of(j, obj, name, false);
}

struct jinja_value
jinja_getitem(struct jinja *j, struct jinja_value obj, struct jinja_value key)
{
	struct jinja_value v;

	if (subscript(j, obj, key, &v) ||
	    (key.type == JINJA_STRING && jinja_attribute(j, obj, key, &v)))
		return v;
	return jinja_undefined_of(j, obj, key, false);
}
