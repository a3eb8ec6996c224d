#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_literal.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"

#define FILTER(name)                                                                               \
	static struct jinja_value name(                                                            \
	    struct jinja *j, struct jinja_value v, const struct jinja_args *args)

FILTER(filter_abs)
{
	jinja_bind(j, "abs", args, NULL, 0, 0, NULL);
	if (!jinja_is_number(v))
		jinja_fail_type(j, "bad operand type for abs(): '%s'", v);
	if (v.type == JINJA_FLOAT)
		return jinja_float(fabs(v.number));
	return jinja_negate(j, v, !jinja_less(j, v, jinja_int(0)));
}

FILTER(filter_int)
{
	static const char *const names[] = {"default", "base"};
	struct jinja_value a[2], out, otherwise;
	int64_t base;
	double d;

	jinja_bind(j, "int", args, names, 2, 0, a);
	otherwise = a[0].type == JINJA_MISSING ? jinja_int(0) : a[0];
	base = jinja_arg_int(j, a[1], 10);
	if (v.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, v);
	if (jinja_is_integer(v))
		return jinja_negate(j, v, true);
	if (v.type == JINJA_FLOAT)
		d = v.number;
	else if (v.type != JINJA_STRING)
		return otherwise;
	else if (base >= 0 && base != 1 && base <= 36 &&
		 jinja_parse_int(j, v.text, v.len, (unsigned)base, &out))
		return out;
	else if (!jinja_parse_float(j, v.text, v.len, &d))
		return otherwise;
	if (v.type == JINJA_FLOAT && isinf(d))
		jinja_fail(j, JINJA_RUNTIME, "cannot convert float infinity to integer");
	return isfinite(d) ? jinja_int_from_double(j, d) : otherwise;
}

FILTER(filter_float)
{
	static const char *const names[] = {"default"};
	struct jinja_value otherwise;
	double d;

	jinja_bind(j, "float", args, names, 1, 0, &otherwise);
	if (otherwise.type == JINJA_MISSING)
		otherwise = jinja_float(0);
	if (v.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, v);
	if (jinja_is_number(v)) {
		d = jinja_number_double(v);
		if (v.type == JINJA_BIG && isinf(d))
			jinja_fail(j, JINJA_RUNTIME, "int too large to convert to float");
		return jinja_float(d);
	}
	if (v.type == JINJA_STRING && jinja_parse_float(j, v.text, v.len, &d))
		return jinja_float(d);
	return otherwise;
}

/* round(number, digits): half to even on the exact decimal value. */
static struct jinja_value
round_common(struct jinja *j, struct jinja_value v, int64_t digits)
{
	char text[700];
	struct jinja_value unit, rest, twice;

	if (v.type == JINJA_FLOAT) {
		if (!isfinite(v.number) || digits > 320)
			return v;
		if (digits >= 0) {
			snprintf(text, sizeof(text), "%.*f", (int)digits, v.number);
			return jinja_float(strtod(text, NULL));
		}
		if (digits < -310)
			return jinja_float(copysign(0.0, v.number));
		double scale = pow(10, (double)-digits);

		return jinja_float(rint(v.number / scale) * scale);
	}
	v = jinja_negate(j, v, true);
	if (digits >= 0)
		return v;
	unit = jinja_power(j, jinja_int(10), jinja_int(-digits));
	rest = jinja_binary(j, '%', v, unit);
	v = jinja_binary(j, '-', v, rest);
	twice = jinja_binary(j, '*', rest, jinja_int(2));
	if (jinja_less(j, unit, twice) ||
	    (jinja_equal(j, unit, twice) &&
		jinja_truth(jinja_binary(j, '%', jinja_binary(j, 'f', v, unit), jinja_int(2)))))
		v = jinja_binary(j, '+', v, unit);
	return v;
}

FILTER(filter_round)
{
	static const char *const names[] = {"precision", "method"};
	struct jinja_value a[2], method, scale;
	int64_t digits;
	double d;

	jinja_bind(j, "round", args, names, 2, 0, a);
	method = jinja_arg_string(j, a[1], "common");
	digits = jinja_arg_int(j, a[0], 0);
	if (!jinja_is_number(v))
		jinja_fail_type(j, "type %s doesn't define __round__ method", v);
	if (jinja_string_is(method, "common"))
		return round_common(j, v, digits);
	if (!jinja_string_is(method, "ceil") && !jinja_string_is(method, "floor"))
		jinja_fail(j, JINJA_RUNTIME, "method must be common, ceil or floor");
	scale = jinja_power(j, jinja_int(10), jinja_int(digits));
	d = jinja_number_double(jinja_binary(j, '*', v, scale));
	d = method.text[0] == 'c' ? ceil(d) : floor(d);
	return jinja_divide(j, '/', jinja_int_from_double(j, d), scale);
}

const struct jinja_filter jinja_number_filters[] = {
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
    {NULL, NULL},
};
