#include "worker/jinja/jinja_repr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/jinja/jinja_ast.h"
#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_unicode.h"

#define PUT(j, literal) jinja_put(j, literal, sizeof(literal) - 1)

/* The shortest digits that read back to the same double, in Python's layout. */
void
jinja_put_float(struct jinja *j, double v)
{
	char text[40], digits[20], out[40];
	int count = 0, point, n = 0;
	bool normal = fabs(v) >= 2.3e-308;

	if (!isfinite(v)) {
		jinja_put(j, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf", v < 0 ? 4 : 3);
		return;
	}
	for (int precision = normal ? 14 : 0; precision <= 16; precision++) {
		snprintf(text, sizeof(text), "%.*e", precision, v);
		if (strtod(text, NULL) == v)
			break;
	}
	for (char *p = text; *p != 'e'; p++)
		if (*p >= '0' && *p <= '9')
			digits[count++] = *p;
	while (count > 1 && digits[count - 1] == '0')
		count--;
	point = atoi(strchr(text, 'e') + 1) + 1; /* digits before the point */
	if (signbit(v))
		out[n++] = '-';
	if (point > 16 || point < -3) {
		out[n++] = digits[0];
		if (count > 1)
			n += snprintf(
			    out + n, sizeof(out) - (size_t)n, ".%.*s", count - 1, digits + 1);
		n += snprintf(out + n, sizeof(out) - (size_t)n, "e%c%02d", point < 1 ? '-' : '+',
		    abs(point - 1));
	} else if (point <= 0) {
		n += snprintf(
		    out + n, sizeof(out) - (size_t)n, "0.%.*s%.*s", -point, "000", count, digits);
	} else if (count <= point) {
		n += snprintf(out + n, sizeof(out) - (size_t)n, "%.*s%.*s.0", count, digits,
		    point - count, "0000000000000000");
	} else {
		n += snprintf(out + n, sizeof(out) - (size_t)n, "%.*s.%.*s", point, digits,
		    count - point, digits + point);
	}
	jinja_put(j, out, (size_t)n);
}

static void
put_escaped_char(struct jinja *j, uint32_t c)
{
	char text[12];

	jinja_put(j, text,
	    (size_t)snprintf(text, sizeof(text),
		c < 0x100     ? "\\x%02x"
		: c < 0x10000 ? "\\u%04x"
			      : "\\U%08x",
		c));
}

/* A string in quotes: single ones, unless only double ones save an escape. */
static void
put_quoted(struct jinja *j, const char *s, size_t n)
{
	char quote = memchr(s, '\'', n) != NULL && memchr(s, '"', n) == NULL ? '"' : '\'';
	size_t from = 0, len;

	jinja_put(j, &quote, 1);
	for (size_t at = 0; at < n; at += len) {
		uint32_t c = jinja_decode(s + at, n - at, &len);
		bool plain = c >= ' ' && c < 0x7f && c != '\\' && c != (unsigned char)quote;

		if (plain || (c >= 0x80 && jinja_printable(c) && len > 1))
			continue;
		jinja_put(j, s + from, at - from);
		from = at + len;
		if (c == '\n')
			PUT(j, "\\n");
		else if (c == '\r')
			PUT(j, "\\r");
		else if (c == '\t')
			PUT(j, "\\t");
		else if (c == '\\' || c == (unsigned char)quote)
			jinja_put(j, (char[]){'\\', (char)c}, 2);
		else
			put_escaped_char(j, c);
	}
	jinja_put(j, s + from, n - from);
	jinja_put(j, &quote, 1);
}

static void
put_list(struct jinja *j, const struct jinja_list *list, const char *open, const char *close)
{
	jinja_put(j, open, 1);
	for (size_t i = 0; i < list->count; i++) {
		if (i > 0)
			PUT(j, ", ");
		jinja_put_repr(j, list->at[i]);
	}
	if (*open == '(' && list->count == 1)
		PUT(j, ",");
	jinja_put(j, close, 1);
}

static void
put_dict(struct jinja *j, const struct jinja_dict *d)
{
	PUT(j, "{");
	for (size_t i = 0; i < d->count; i++) {
		if (i > 0)
			PUT(j, ", ");
		jinja_put_repr(j, d->entries[i].key);
		PUT(j, ": ");
		jinja_put_repr(j, d->entries[i].value);
	}
	PUT(j, "}");
}

static void
put_view(struct jinja *j, struct jinja_value v)
{
	const char *name = jinja_type_name(v);

	jinja_put(j, name, strlen(name));
	PUT(j, "(");
	put_list(j, jinja_to_list(j, v), "[", "]");
	PUT(j, ")");
}

static void
put_range(struct jinja *j, const struct jinja_range *r)
{
	char text[90];
	int n = snprintf(
	    text, sizeof(text), "range(%lld, %lld", (long long)r->start, (long long)r->stop);

	if (r->step != 1)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %lld", (long long)r->step);
	jinja_put(j, text, (size_t)n);
	PUT(j, ")");
}

static void
put_loop(struct jinja *j, struct jinja_loop *loop)
{
	char text[60];
	long long length = (long long)jinja_loop_length(j, loop);

	jinja_put(j, text,
	    (size_t)snprintf(text, sizeof(text), "<LoopContext %lld/%lld>",
		(long long)loop->index0 + 1, length));
}

static void
put_macro(struct jinja *j, const struct jinja_macro *macro)
{
	PUT(j, "<Macro ");
	if (macro->function->name.type == JINJA_STRING)
		jinja_put_repr(j, macro->function->name);
	else
		PUT(j, "anonymous");
	PUT(j, ">");
}

static void
put_repr(struct jinja *j, struct jinja_value v)
{
	switch (v.type) {
	case JINJA_NONE:
		PUT(j, "None");
		break;
	case JINJA_BOOL:
		jinja_put(j, v.boolean ? "True" : "False", v.boolean ? 4 : 5);
		break;
	case JINJA_INT:
	case JINJA_BIG:
		jinja_int_put(j, v, 10);
		break;
	case JINJA_FLOAT:
		jinja_put_float(j, v.number);
		break;
	case JINJA_STRING:
		if (v.flags & JINJA_MARKUP)
			PUT(j, "Markup(");
		put_quoted(j, v.text, v.len);
		if (v.flags & JINJA_MARKUP)
			PUT(j, ")");
		break;
	case JINJA_LIST:
		put_list(j, v.list, "[", "]");
		break;
	case JINJA_TUPLE:
		put_list(j, v.list, "(", ")");
		break;
	case JINJA_DICT:
		put_dict(j, v.dict);
		break;
	case JINJA_NAMESPACE:
		PUT(j, "<Namespace ");
		put_dict(j, v.dict);
		PUT(j, ">");
		break;
	case JINJA_KEYS:
	case JINJA_VALUES:
	case JINJA_ITEMS:
		put_view(j, v);
		break;
	case JINJA_RANGE:
		put_range(j, v.range);
		break;
	case JINJA_LOOP:
		put_loop(j, v.loop);
		break;
	case JINJA_MACRO:
		put_macro(j, v.macro);
		break;
	case JINJA_UNDEFINED:
	case JINJA_MISSING:
		PUT(j, "Undefined");
		break;
	default: /* Python would print an address */
		jinja_fail(j, JINJA_RUNTIME, "a %s cannot be printed", jinja_type_name(v));
	}
}

void
jinja_put_repr(struct jinja *j, struct jinja_value v)
{
	jinja_enter(j);
	put_repr(j, v);
	jinja_leave(j);
}

void
jinja_put_str(struct jinja *j, struct jinja_value v)
{
	if (v.type == JINJA_STRING)
		jinja_put(j, v.text, v.len);
	else if (v.type != JINJA_UNDEFINED)
		jinja_put_repr(j, v);
}

struct jinja_value
jinja_to_str(struct jinja *j, struct jinja_value v)
{
	size_t from = j->out_len;

	if (v.type == JINJA_STRING) {
		v.flags &= (uint8_t)~JINJA_MARKUP;
		return v;
	}
	jinja_put_str(j, v);
	return jinja_capture(j, from);
}

struct jinja_value
jinja_to_repr(struct jinja *j, struct jinja_value v)
{
	size_t from = j->out_len;

	jinja_put_repr(j, v);
	return jinja_capture(j, from);
}

struct jinja_value
jinja_soft_str(struct jinja *j, struct jinja_value v)
{
	return v.type == JINJA_STRING ? v : jinja_to_str(j, v);
}

struct jinja_value
jinja_escape(struct jinja *j, struct jinja_value v)
{
	static const struct {
		char c;
		const char *entity;
	} table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
	size_t start = j->out_len, from = 0;

	if (v.type == JINJA_STRING && (v.flags & JINJA_MARKUP))
		return v;
	v = jinja_to_str(j, v);
	for (size_t i = 0; i < v.len; i++)
		for (size_t k = 0; k < sizeof(table) / sizeof(*table); k++)
			if (v.text[i] == table[k].c) {
				jinja_put(j, v.text + from, i - from);
				jinja_put(j, table[k].entity, strlen(table[k].entity));
				from = i + 1;
			}
	jinja_pay(j, v.len);
	if (from > 0) {
		jinja_put(j, v.text + from, v.len - from);
		v = jinja_capture(j, start);
	}
	v.flags = JINJA_MARKUP;
	return v;
}
