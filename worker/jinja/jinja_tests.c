#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"

typedef bool test(struct jinja *j, struct jinja_value v, const struct jinja_args *args);

/* Tests that take nothing but the value. */
#define PLAIN(name, expression)                                                                    \
	static bool test_##name(                                                                   \
	    struct jinja *j, struct jinja_value v, const struct jinja_args *args)                  \
	{                                                                                          \
		jinja_bind(j, #name, args, NULL, 0, 0, NULL);                                      \
		return expression;                                                                 \
	}
PLAIN(defined, v.type != JINJA_UNDEFINED)
PLAIN(undefined, v.type == JINJA_UNDEFINED)
PLAIN(none, v.type == JINJA_NONE)
PLAIN(boolean, v.type == JINJA_BOOL)
PLAIN(true, v.type == JINJA_BOOL && v.boolean)
PLAIN(false, v.type == JINJA_BOOL && !v.boolean)
PLAIN(integer, v.type == JINJA_INT || v.type == JINJA_BIG)
PLAIN(float, v.type == JINJA_FLOAT)
PLAIN(number, jinja_is_number(v))
PLAIN(string, v.type == JINJA_STRING)
PLAIN(mapping, v.type == JINJA_DICT)
PLAIN(iterable, jinja_is_iterable(v))
PLAIN(escaped, v.type == JINJA_STRING && (v.flags & JINJA_MARKUP))
PLAIN(upper, jinja_is_upper_text(j, jinja_to_str(j, v), true))
PLAIN(lower, jinja_is_upper_text(j, jinja_to_str(j, v), false))
#undef PLAIN

static bool
test_sequence(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "sequence", args, NULL, 0, 0, NULL);
	switch (v.type) {
	case JINJA_UNDEFINED:
	case JINJA_STRING:
	case JINJA_LIST:
	case JINJA_TUPLE:
	case JINJA_DICT:
	case JINJA_RANGE:
		return true;
	default:
		return false;
	}
}

static bool
test_callable(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "callable", args, NULL, 0, 0, NULL);
	return v.type == JINJA_FUNCTION || v.type == JINJA_METHOD || v.type == JINJA_MACRO ||
	       v.type == JINJA_JOINER || v.type == JINJA_LOOP || v.type == JINJA_UNDEFINED;
}

static int64_t
remainder_of(struct jinja *j, struct jinja_value v, struct jinja_value by)
{
	struct jinja_value rest = jinja_binary(j, '%', v, by);

	if (rest.type == JINJA_FLOAT)
		return rest.number == 0 ? 0 : rest.number == 1 ? 1 : -1;
	return jinja_is_number(rest) ? jinja_to_int64(j, rest, "a remainder") : -1;
}

static bool
test_odd(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "odd", args, NULL, 0, 0, NULL);
	return remainder_of(j, v, jinja_int(2)) == 1;
}

static bool
test_even(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "even", args, NULL, 0, 0, NULL);
	return remainder_of(j, v, jinja_int(2)) == 0;
}

static bool
test_divisible(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	static const char *const names[] = {"num"};
	struct jinja_value by;

	jinja_bind(j, "divisibleby", args, names, 1, 1, &by);
	return remainder_of(j, v, by) == 0;
}

static void
check_hashable(struct jinja *j, struct jinja_value v)
{
	if (v.type == JINJA_LIST || v.type == JINJA_DICT)
		jinja_fail(j, JINJA_RUNTIME, "unhashable type: '%s'", jinja_type_name(v));
}

static bool
test_filter(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "filter", args, NULL, 0, 0, NULL);
	check_hashable(j, v);
	return v.type == JINJA_STRING && (jinja_filter_find(v) != NULL || jinja_filter_refused(v));
}

static bool
test_test(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	jinja_bind(j, "test", args, NULL, 0, 0, NULL);
	check_hashable(j, v);
	return v.type == JINJA_STRING && jinja_test_find(v) != NULL;
}

static struct jinja_value
other(struct jinja *j, const struct jinja_args *args)
{
	struct jinja_value v;

	jinja_bind(j, "a comparison", args, NULL, 1, 1, &v);
	return v;
}

static bool
test_eq(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return jinja_equal(j, v, other(j, args));
}

static bool
test_ne(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return !jinja_equal(j, v, other(j, args));
}

static bool
test_lt(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return jinja_less(j, v, other(j, args));
}

static bool
test_gt(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return jinja_less(j, other(j, args), v);
}

static bool
test_le(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return !jinja_less(j, other(j, args), v);
}

static bool
test_ge(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	return !jinja_less(j, v, other(j, args));
}

static bool
test_in(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	static const char *const names[] = {"seq"};
	struct jinja_value in;

	jinja_bind(j, "in", args, names, 1, 1, &in);
	return jinja_contains(j, v, in);
}

/* Python's `is`: the same object, which for small values is the same value. */
static bool
test_sameas(struct jinja *j, struct jinja_value v, const struct jinja_args *args)
{
	static const char *const names[] = {"other"};
	struct jinja_value o;

	jinja_bind(j, "sameas", args, names, 1, 1, &o);
	if (v.type != o.type)
		return false;
	if (v.type == JINJA_LIST || v.type == JINJA_TUPLE || v.type == JINJA_DICT)
		return v.list == o.list;
	return jinja_equal(j, v, o);
}

static const struct jinja_test tests[] = {
    {"defined", test_defined},
    {"string", test_string},
    {"none", test_none},
    {"mapping", test_mapping},
    {"iterable", test_iterable},
    {"sequence", test_sequence},
    {"undefined", test_undefined},
    {"false", test_false},
    {"true", test_true},
    {"boolean", test_boolean},
    {"integer", test_integer},
    {"float", test_float},
    {"number", test_number},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisible},
    {"filter", test_filter},
    {"test", test_test},
    {"lower", test_lower},
    {"upper", test_upper},
    {"callable", test_callable},
    {"sameas", test_sameas},
    {"escaped", test_escaped},
    {"in", test_in},
    {"==", test_eq},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"!=", test_ne},
    {"ne", test_ne},
    {">", test_gt},
    {"gt", test_gt},
    {"greaterthan", test_gt},
    {">=", test_ge},
    {"ge", test_ge},
    {"<", test_lt},
    {"lt", test_lt},
    {"lessthan", test_lt},
    {"<=", test_le},
    {"le", test_le},
};

const struct jinja_test *
jinja_test_find(struct jinja_value name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		if (jinja_string_is(name, tests[i].name))
			return &tests[i];
	return NULL;
}
