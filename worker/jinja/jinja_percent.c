#include <string.h>

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_format.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

struct percent {
	struct jinja *j;
	const char *at, *end;
	struct jinja_value value;
	size_t used;
	bool markup; /* what is put in gets escaped */
};

static struct jinja_value
next_value(struct percent *p)
{
	if (p->value.type == JINJA_TUPLE) {
		if (p->used == p->value.list->count)
			jinja_fail(p->j, JINJA_RUNTIME, "not enough arguments for format string");
		return p->value.list->at[p->used++];
	}
	if (p->used++ > 0)
		jinja_fail(p->j, JINJA_RUNTIME, "not enough arguments for format string");
	return p->value;
}

static int
number(struct percent *p)
{
	int64_t n = 0;

	if (p->at < p->end && *p->at == '*') {
		p->at++;
		n = jinja_to_int64(p->j, next_value(p), "a width");
		return n > INT32_MAX || n < -INT32_MAX ? INT32_MAX : (int)n;
	}
	for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
		n = n > 100000000 ? n : n * 10 + (*p->at - '0');
	return (int)n;
}

/* (name) after the %: looks it up. */
static bool
named(struct percent *p, struct jinja_value *v)
{
	const char *start = p->at + 1;
	int depth = 0;

	if (p->at == p->end || *p->at != '(')
		return false;
	if (p->value.type != JINJA_DICT)
		jinja_fail(p->j, JINJA_RUNTIME, "format requires a mapping");
	for (; p->at < p->end; p->at++) {
		depth += *p->at == '(' ? 1 : *p->at == ')' ? -1 : 0;
		if (depth == 0)
			break;
	}
	if (p->at == p->end)
		jinja_fail(p->j, JINJA_RUNTIME, "incomplete format key");
	struct jinja_value key = jinja_string(start, (size_t)(p->at++ - start));
	struct jinja_value *found = jinja_dict_get(p->j, p->value.dict, key);

	if (found == NULL)
		jinja_fail(p->j, JINJA_RUNTIME, "KeyError: '%.*s'",
		    key.len > 80 ? 80 : (int)key.len, key.text);
	*v = *found;
	return true;
}

static void
put_char(struct percent *p, struct jinja_value v, const struct jinja_spec *spec)
{
	char text[4];
	int64_t c;

	if (v.type == JINJA_STRING) {
		if (jinja_chars(v.text, v.len) != 1)
			jinja_fail(p->j, JINJA_RUNTIME, "%%c requires int or char");
		jinja_put_text(p->j, v, spec);
		return;
	}
	c = jinja_to_int64(p->j, v, "%c");
	if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		jinja_fail(p->j, JINJA_RUNTIME, "%%c arg not in range(0x110000)");
	jinja_put_text(p->j, jinja_string_copy(p->j, text, jinja_encode((uint32_t)c, text)), spec);
}

static void
put_conversion(struct percent *p, struct jinja_value v, struct jinja_spec *spec)
{
	switch (spec->type) {
	case 's':
	case 'r':
	case 'a':
		if (spec->type == 's')
			v = p->markup ? jinja_escape(p->j, v) : jinja_to_str(p->j, v);
		else
			v = jinja_to_repr(p->j, v);
		if (p->markup && spec->type != 's')
			v = jinja_escape(p->j, v);
		spec->align = spec->align == 0 ? '>' : spec->align;
		jinja_put_text(p->j, v, spec);
		break;
	case 'c':
		spec->align = spec->align == 0 ? '>' : spec->align;
		put_char(p, v, spec);
		break;
	case 'd':
	case 'i':
	case 'u':
		if (v.type == JINJA_FLOAT)
			v = jinja_int_from_double(p->j, v.number);
		/* fall through */
	case 'o':
	case 'x':
	case 'X':
		if (!jinja_is_integer(v))
			jinja_fail_type(p->j, "a format needs an integer, not %s", v);
		spec->type = spec->type == 'i' || spec->type == 'u' ? 'd' : spec->type;
		jinja_put_number(p->j, v, spec);
		break;
	case 'e':
	case 'E':
	case 'f':
	case 'F':
	case 'g':
	case 'G':
		if (!jinja_is_number(v))
			jinja_fail_type(p->j, "must be real number, not %s", v);
		jinja_put_number(p->j, v, spec);
		break;
	default:
		jinja_fail(p->j, JINJA_RUNTIME, "unsupported format character '%c'", spec->type);
	}
}

static void
put_one(struct percent *p)
{
	struct jinja_spec spec = {.precision = -1};
	struct jinja_value v;
	bool has = named(p, &v);

	for (; p->at < p->end && strchr("-+ #0", *p->at) != NULL && *p->at != '\0'; p->at++) {
		spec.align = *p->at == '-' ? '<' : spec.align;
		spec.sign = *p->at == '+' || (*p->at == ' ' && spec.sign == 0) ? *p->at : spec.sign;
		spec.alternate |= *p->at == '#';
		spec.zero |= *p->at == '0';
	}
	spec.width = number(p);
	if (spec.width < 0) {
		spec.align = '<';
		spec.width = -spec.width;
	}
	if (p->at < p->end && *p->at == '.') {
		p->at++;
		spec.precision = number(p);
	}
	while (p->at < p->end && (*p->at == 'l' || *p->at == 'h' || *p->at == 'L'))
		p->at++;
	if (p->at == p->end)
		jinja_fail(p->j, JINJA_RUNTIME, "incomplete format");
	spec.type = *p->at++;
	if (spec.type == '%')
		jinja_put(p->j, "%", 1);
	else
		put_conversion(p, has ? v : next_value(p), &spec);
}

/* What Python takes for a mapping, which need not be used up. */
static bool
has_items(struct jinja_value v)
{
	return v.type == JINJA_DICT || v.type == JINJA_LIST || v.type == JINJA_RANGE ||
	       v.type == JINJA_UNDEFINED;
}

struct jinja_value
jinja_percent(struct jinja *j, struct jinja_value format, struct jinja_value value)
{
	struct percent p = {.j = j,
	    .at = format.text,
	    .end = format.text + format.len,
	    .value = value,
	    .markup = (format.flags & JINJA_MARKUP) != 0};
	size_t from = j->out_len;
	struct jinja_value out;

	while (p.at < p.end) {
		const char *next = memchr(p.at, '%', (size_t)(p.end - p.at));

		jinja_put(j, p.at, (size_t)((next == NULL ? p.end : next) - p.at));
		if (next == NULL)
			break;
		p.at = next + 1;
		put_one(&p);
	}
	if (value.type == JINJA_TUPLE ? p.used < value.list->count
				      : p.used == 0 && !has_items(value))
		jinja_fail(
		    j, JINJA_RUNTIME, "not all arguments converted during string formatting");
	out = jinja_capture(j, from);
	out.flags = format.flags & JINJA_MARKUP;
	return out;
}
