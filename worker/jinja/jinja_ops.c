#include "worker/jinja/jinja_ops.h"

#include <math.h>
#include <string.h>

#include "worker/jinja/jinja_format.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_repr.h"

static _Noreturn void
fail_operands(struct jinja *j, const char *op, struct jinja_value a, struct jinja_value b)
{
	if (a.type == JINJA_UNDEFINED || b.type == JINJA_UNDEFINED)
		jinja_fail_undefined(j, a.type == JINJA_UNDEFINED ? a : b);
	jinja_fail(j, JINJA_RUNTIME, "unsupported operand type(s) for %s: '%s' and '%s'", op,
	    jinja_type_name(a), jinja_type_name(b));
}

struct jinja_value
jinja_concat(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	size_t total = (size_t)a.len + b.len;
	struct jinja_text *text;
	struct jinja_value sum;

	if (a.flags & JINJA_GROWS) {
		text = (struct jinja_text *)(uintptr_t)(a.text - offsetof(struct jinja_text, at));
		if (text->used == a.len && text->size - text->used >= b.len) {
			jinja_pay(j, b.len);
			if (b.len != 0)
				memcpy(text->at + text->used, b.text, b.len);
			text->used = total;
			a.len = (uint32_t)total;
			return a;
		}
	}
	text = jinja_alloc(j, sizeof(*text) + total + total / 2 + 32);
	text->size = total + total / 2 + 32;
	text->used = total;
	jinja_pay(j, total * 2);
	if (a.len != 0)
		memcpy(text->at, a.text, a.len);
	if (b.len != 0)
		memcpy(text->at + a.len, b.text, b.len);
	sum = jinja_string(text->at, total);
	sum.flags = (uint8_t)((a.flags & JINJA_MARKUP) | JINJA_GROWS);
	return sum;
}

static struct jinja_value
add_strings(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	if ((a.flags | b.flags) & JINJA_MARKUP) {
		a = jinja_escape(j, a);
		b = jinja_escape(j, b);
	}
	return jinja_concat(j, a, b);
}

/* Appends to the left list's own items where nobody else has. */
static struct jinja_value
add_lists(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	struct jinja_list *sum = jinja_alloc(j, sizeof(*sum));

	*sum = *a.list;
	for (size_t i = 0; i < b.list->count; i++)
		jinja_append(j, sum, b.list->at[i]);
	jinja_pay(j, b.list->count);
	a.list = sum;
	a.flags = 0;
	return a;
}

static struct jinja_value
add(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	if (a.type == JINJA_STRING && b.type == JINJA_STRING)
		return add_strings(j, a, b);
	if (jinja_is_number(a) && jinja_is_number(b)) {
		if (a.type == JINJA_FLOAT || b.type == JINJA_FLOAT)
			return jinja_float(jinja_number_double(a) + jinja_number_double(b));
		return jinja_int_binary(j, '+', a, b);
	}
	if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE))
		return add_lists(j, a, b);
	if (b.type != JINJA_UNDEFINED &&
	    (a.type == JINJA_STRING || a.type == JINJA_LIST || a.type == JINJA_TUPLE))
		jinja_fail(j, JINJA_RUNTIME, "can only concatenate %s (not \"%s\") to %s",
		    jinja_type_name(a), jinja_type_name(b), jinja_type_name(a));
	fail_operands(j, "+", a, b);
}

static struct jinja_value
repeat(struct jinja *j, struct jinja_value v, struct jinja_value times)
{
	int64_t n = jinja_to_int64(j, times, "a repetition");
	size_t from = j->out_len;
	struct jinja_list *list;
	uint8_t flags = v.flags & JINJA_MARKUP;

	if (n < 0)
		n = 0;
	if (v.type == JINJA_STRING) {
		for (int64_t i = 0; i < n && v.len > 0; i++)
			jinja_put(j, v.text, v.len);
		v = jinja_capture(j, from);
		v.flags = flags;
		return v;
	}
	list = jinja_list_new(j, v.list->count);
	for (int64_t i = 0; i < n && v.list->count > 0; i++)
		for (size_t k = 0; k < v.list->count; k++) {
			jinja_pay(j, 0);
			jinja_append(j, list, v.list->at[k]);
		}
	v.list = list;
	v.flags = 0;
	return v;
}

static bool
is_sequence(struct jinja_value v)
{
	return v.type == JINJA_STRING || v.type == JINJA_LIST || v.type == JINJA_TUPLE;
}

static struct jinja_value
multiply(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	if (is_sequence(a) && jinja_is_integer(b))
		return repeat(j, a, b);
	if (is_sequence(b) && jinja_is_integer(a))
		return repeat(j, b, a);
	if (!jinja_is_number(a) || !jinja_is_number(b))
		fail_operands(j, "*", a, b);
	if (a.type == JINJA_FLOAT || b.type == JINJA_FLOAT)
		return jinja_float(jinja_number_double(a) * jinja_number_double(b));
	return jinja_int_binary(j, '*', a, b);
}

/* Python's float // and %: the remainder has the divisor's sign. */
static struct jinja_value
divide_floats(struct jinja *j, char op, double a, double b)
{
	double mod, div, whole;

	if (b == 0)
		jinja_fail(j, JINJA_RUNTIME, "%s",
		    op == '%'	? "float modulo by zero"
		    : op == 'f' ? "float floor division by zero"
				: "float division by zero");
	if (op == '/')
		return jinja_float(a / b);
	mod = fmod(a, b);
	div = (a - mod) / b;
	if (mod != 0 && (b < 0) != (mod < 0)) {
		mod += b;
		div -= 1;
	} else if (mod == 0) {
		mod = copysign(0.0, b);
	}
	if (op == '%')
		return jinja_float(mod);
	if (div == 0)
		return jinja_float(copysign(0.0, a / b));
	whole = floor(div);
	return jinja_float(div - whole > 0.5 ? whole + 1 : whole);
}

struct jinja_value
jinja_divide(struct jinja *j, char op, struct jinja_value a, struct jinja_value b)
{
	if (!jinja_is_number(a) || !jinja_is_number(b))
		fail_operands(j, op == '/' ? "/" : op == 'f' ? "//" : "%", a, b);
	if (a.type == JINJA_FLOAT || b.type == JINJA_FLOAT)
		return divide_floats(j, op, jinja_number_double(a), jinja_number_double(b));
	if (op == '/') {
		if (!jinja_truth(b))
			jinja_fail(j, JINJA_RUNTIME, "division by zero");
		if (a.type == JINJA_INT && b.type == JINJA_INT)
			return jinja_float(
			    (double)((long double)a.integer / (long double)b.integer));
		return jinja_float(jinja_number_double(a) / jinja_number_double(b));
	}
	return jinja_int_binary(j, op == 'f' ? '/' : '%', a, b);
}

struct jinja_value
jinja_power(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	double x, y, power;

	if (!jinja_is_number(a) || !jinja_is_number(b))
		fail_operands(j, "** or pow()", a, b);
	x = jinja_number_double(a);
	y = jinja_number_double(b);
	if (a.type != JINJA_FLOAT && b.type != JINJA_FLOAT && !(y < 0))
		return jinja_int_power(j, a, b);
	if (x == 0 && y < 0)
		jinja_fail(j, JINJA_RUNTIME, "0.0 cannot be raised to a negative power");
	if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
		jinja_fail(j, JINJA_RUNTIME, "a power that is a complex number is not supported");
	power = pow(x, y);
	if (isinf(power) && isfinite(x) && isfinite(y))
		jinja_fail(j, JINJA_RUNTIME, "Numerical result out of range");
	return jinja_float(power);
}

struct jinja_value
jinja_negate(struct jinja *j, struct jinja_value v, bool keep)
{
	if (!jinja_is_number(v))
		jinja_fail_type(j,
		    keep ? "bad operand type for unary +: '%s'"
			 : "bad operand type for unary -: '%s'",
		    v);
	if (v.type == JINJA_FLOAT)
		return keep ? v : jinja_float(-v.number);
	return keep ? jinja_int_binary(j, '+', jinja_int(0), v) : jinja_int_negate(j, v);
}

struct jinja_value
jinja_binary(struct jinja *j, char op, struct jinja_value a, struct jinja_value b)
{
	switch (op) {
	case '+':
		return add(j, a, b);
	case '-':
		if (!jinja_is_number(a) || !jinja_is_number(b))
			fail_operands(j, "-", a, b);
		if (a.type == JINJA_FLOAT || b.type == JINJA_FLOAT)
			return jinja_float(jinja_number_double(a) - jinja_number_double(b));
		return jinja_int_binary(j, '-', a, b);
	case '*':
		return multiply(j, a, b);
	case 'p':
		return jinja_power(j, a, b);
	case '%':
		if (a.type == JINJA_STRING)
			return jinja_percent(j, a, b);
		return jinja_divide(j, op, a, b);
	default:
		return jinja_divide(j, op, a, b);
	}
}
