#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/jinja/jinja_format.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

enum { WIDTH_MAX = 1 << 20 };

static void
put_fill(struct jinja *j, const struct jinja_spec *spec, int64_t count)
{
	char fill[4];
	size_t len = jinja_encode(spec->fill != 0 ? spec->fill : ' ', fill);

	while (count-- > 0)
		jinja_put(j, fill, len);
}

/* head (sign, prefix) and body in a field of the width. */
static void
put_field(struct jinja *j, const struct jinja_spec *spec, const char *head, struct jinja_value body,
    char align)
{
	int64_t room =
	    spec->width - (int64_t)strlen(head) - (int64_t)jinja_chars(body.text, body.len);

	if (spec->width > WIDTH_MAX)
		jinja_fail(j, JINJA_LIMIT, "a format field of more than %d characters", WIDTH_MAX);
	if (spec->align != 0)
		align = spec->align;
	if (room < 0)
		room = 0;
	if (align == '>' || align == '^')
		put_fill(j, spec, align == '>' ? room : room / 2);
	jinja_put(j, head, strlen(head));
	if (align == '=')
		put_fill(j, spec, room);
	jinja_put(j, body.text, body.len);
	if (align == '<' || align == '^')
		put_fill(j, spec, align == '<' ? room : room - room / 2);
}

void
jinja_put_text(struct jinja *j, struct jinja_value s, const struct jinja_spec *spec)
{
	if (spec->precision >= 0)
		s.len = (uint32_t)jinja_char_offset(s.text, s.len, (size_t)spec->precision);
	s.flags = 0;
	put_field(j, spec, "", s, '<');
}

/* Digits with a separator between every `every` of the whole part. */
static struct jinja_value
grouped(struct jinja *j, struct jinja_value digits, char separator, size_t every)
{
	size_t from = j->out_len, whole = 0;

	while (whole < digits.len && (digits.text[whole] | 32) >= '0' &&
	       strchr("0123456789abcdefABCDEF", digits.text[whole]) != NULL)
		whole++;
	for (size_t i = 0; i < digits.len; i++) {
		if (i > 0 && i < whole && (whole - i) % every == 0)
			jinja_put(j, &separator, 1);
		jinja_put(j, digits.text + i, 1);
	}
	return jinja_capture(j, from);
}

static void
put_integer(struct jinja *j, struct jinja_value v, const struct jinja_spec *spec)
{
	unsigned base = spec->type == 'b'			 ? 2
			: spec->type == 'o'			 ? 8
			: spec->type == 'x' || spec->type == 'X' ? 16
								 : 10;
	bool negative = jinja_less(j, v, jinja_int(0));
	size_t from = j->out_len;
	struct jinja_value digits;
	char head[8], prefix[3] = {0};

	jinja_int_put(j, negative ? jinja_int_negate(j, v) : v, base);
	digits = jinja_capture(j, from);
	if (spec->type == 'X')
		for (size_t i = 0; i < digits.len; i++) {
			char c = digits.text[i];

			jinja_put(j, &(char){c >= 'a' ? (char)(c - 32) : c}, 1);
		}
	if (spec->type == 'X')
		digits = jinja_capture(j, from);
	for (int64_t n = digits.len; n < spec->precision && n < WIDTH_MAX; n++)
		jinja_put(j, "0", 1);
	if (j->out_len > from) {
		jinja_put(j, digits.text, digits.len);
		digits = jinja_capture(j, from);
	}
	if (spec->group != 0)
		digits = grouped(j, digits, spec->group, base == 10 ? 3 : 4);
	if (spec->alternate && base != 10)
		snprintf(prefix, sizeof(prefix), "0%c", spec->type);
	snprintf(head, sizeof(head), "%s%s",
	    negative		? "-"
	    : spec->sign == '+' ? "+"
	    : spec->sign == ' ' ? " "
				: "",
	    prefix);
	put_field(j, spec, head, digits, '>');
}

static void
put_float(struct jinja *j, struct jinja_value v, const struct jinja_spec *spec)
{
	double d = jinja_number_double(v);
	char text[400 + 400], format[16], head[2] = {0}, type = spec->type == 0 ? 'g' : spec->type;
	int precision = spec->precision < 0 ? 6 : spec->precision > 300 ? 300 : spec->precision;
	size_t from = j->out_len;
	struct jinja_value digits;

	if (type == '%')
		d *= 100;
	head[0] = signbit(d) && !isnan(d) ? '-'
		  : spec->sign == '+'	  ? '+'
		  : spec->sign == ' '	  ? ' '
					  : 0;
	d = fabs(d);
	if (!isfinite(d)) {
		snprintf(text, sizeof(text), "%s", isnan(d) ? "nan" : "inf");
	} else if (spec->type == 0 && spec->precision < 0) {
		jinja_put_float(j, d);
		digits = jinja_capture(j, from);
		snprintf(text, sizeof(text), "%.*s", (int)digits.len, digits.text);
	} else {
		snprintf(format, sizeof(format), "%%%s.*%c", spec->alternate ? "#" : "",
		    type == '%'	  ? 'f'
		    : type == 'n' ? 'g'
				  : type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), format, precision, d);
#pragma GCC diagnostic pop
		if (spec->type == 0 && strpbrk(text, ".en") == NULL)
			strcat(text, ".0");
	}
	if (type == '%')
		strcat(text, "%");
	digits = jinja_string_copy(j, text, strlen(text));
	if (spec->group != 0)
		digits = grouped(j, digits, spec->group, 3);
	put_field(j, spec, head, digits, '>');
}

void
jinja_put_number(struct jinja *j, struct jinja_value v, const struct jinja_spec *spec)
{
	struct jinja_spec s = *spec;

	if (s.zero && s.align == 0) {
		s.align = '=';
		s.fill = s.fill != 0 ? s.fill : '0';
	}
	if (s.type != 0 && strchr("eEfFgG%", s.type) != NULL)
		put_float(j, v, &s);
	else if (v.type == JINJA_FLOAT)
		put_float(j, v, &s);
	else
		put_integer(j, v, &s);
}
