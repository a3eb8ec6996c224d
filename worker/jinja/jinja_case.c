#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_unicode.h"

static struct jinja_value
cased(struct jinja *j, struct jinja_value s, enum jinja_case to)
{
	size_t from = j->out_len;
	uint8_t flags = s.flags & JINJA_MARKUP;

	jinja_put_text_case(j, s.text, s.len, to);
	s = jinja_capture(j, from);
	s.flags = flags;
	return s;
}

struct jinja_value
jinja_upper_text(struct jinja *j, struct jinja_value s)
{
	return cased(j, s, JINJA_UPPER);
}

struct jinja_value
jinja_lower_text(struct jinja *j, struct jinja_value s)
{
	return cased(j, s, JINJA_LOWER);
}

struct jinja_value
jinja_capitalize(struct jinja *j, struct jinja_value s)
{
	size_t from = j->out_len, len, first;
	uint8_t flags = s.flags & JINJA_MARKUP;
	struct jinja_value lower;
	uint32_t c;

	if (s.len == 0)
		return s;
	/* The whole in lower case first, as a sigma looks at what stands before it; then the part
	   that is the first character's is put aside. */
	lower = cased(j, s, JINJA_LOWER);
	c = jinja_decode(s.text, s.len, &len);
	jinja_put_case(j, c, JINJA_LOWER, false);
	first = j->out_len - from;
	j->out_len = from;
	jinja_put_case(j, c, JINJA_TITLE, false);
	jinja_put(j, lower.text + first, lower.len - first);
	s = jinja_capture(j, from);
	s.flags = flags;
	return s;
}

static struct jinja_value
swap_case(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	size_t from = j->out_len, len;
	uint8_t flags = s.flags & JINJA_MARKUP;

	jinja_bind(j, "swapcase", args, NULL, 0, 0, NULL);
	for (size_t at = 0; at < s.len; at += len) {
		uint32_t c = jinja_decode(s.text + at, s.len - at, &len);

		if (jinja_upper(c))
			jinja_put_case(j, c, JINJA_LOWER, false);
		else if (jinja_lower(c))
			jinja_put_case(j, c, JINJA_UPPER, false);
		else
			jinja_put(j, s.text + at, len);
	}
	s = jinja_capture(j, from);
	s.flags = flags;
	return s;
}

bool
jinja_is_upper_text(struct jinja *j, struct jinja_value s, bool upper)
{
	bool any = false;
	size_t len;

	jinja_pay(j, s.len * (size_t)8);
	for (size_t at = 0; at < s.len; at += len) {
		uint32_t c = jinja_decode(s.text + at, s.len - at, &len);

		if ((upper ? jinja_lower(c) : jinja_upper(c)) || jinja_title(c))
			return false;
		any |= upper ? jinja_upper(c) : jinja_lower(c);
	}
	return any;
}

static bool
is_title(struct jinja_value s)
{
	bool any = false, inside = false;
	size_t len;

	for (size_t at = 0; at < s.len; at += len) {
		uint32_t c = jinja_decode(s.text + at, s.len - at, &len);

		if (jinja_upper(c) || jinja_title(c)) {
			if (inside)
				return false;
			inside = any = true;
		} else if (jinja_lower(c)) {
			if (!inside)
				return false;
			any = true;
		} else {
			inside = false;
		}
	}
	return any;
}

static bool
is_alnum(uint32_t c)
{
	return jinja_alpha(c) || jinja_decimal(c) || jinja_digit(c) || jinja_numeric(c);
}

/* All characters are of a kind; an empty string is of that kind only where `empty` says so. */
static struct jinja_value
all(struct jinja *j, struct jinja_value s, const struct jinja_args *args, bool (*kind)(uint32_t),
    bool empty)
{
	size_t len;

	jinja_bind(j, "a test of text", args, NULL, 0, 0, NULL);
	jinja_pay(j, s.len * (size_t)8);
	for (size_t at = 0; at < s.len; at += len)
		if (!kind(jinja_decode(s.text + at, s.len - at, &len)))
			return jinja_bool(false);
	return jinja_bool(s.len > 0 || empty);
}

#define ALL(name, kind, empty)                                                                     \
	static struct jinja_value name(                                                            \
	    struct jinja *j, struct jinja_value s, const struct jinja_args *args)                  \
	{                                                                                          \
		return all(j, s, args, kind, empty);                                               \
	}
ALL(all_alpha, jinja_alpha, false)
ALL(all_alnum, is_alnum, false)
ALL(all_digit, jinja_digit, false)
ALL(all_decimal, jinja_decimal, false)
ALL(all_numeric, jinja_numeric, false)
ALL(all_space, jinja_space, false)
ALL(all_printable, jinja_printable, true)
#undef ALL

static struct jinja_value
is_ascii(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "isascii", args, NULL, 0, 0, NULL);
	return jinja_bool(jinja_is_ascii(s.text, s.len));
}

static struct jinja_value
is_upper(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "isupper", args, NULL, 0, 0, NULL);
	return jinja_bool(jinja_is_upper_text(j, s, true));
}

static struct jinja_value
is_lower(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "islower", args, NULL, 0, 0, NULL);
	return jinja_bool(jinja_is_upper_text(j, s, false));
}

static struct jinja_value
is_title_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "istitle", args, NULL, 0, 0, NULL);
	return jinja_bool(is_title(s));
}

static struct jinja_value
is_identifier(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	size_t len;

	jinja_bind(j, "isidentifier", args, NULL, 0, 0, NULL);
	for (size_t at = 0; at < s.len; at += len)
		if (!jinja_identifier(jinja_decode(s.text + at, s.len - at, &len), at == 0))
			return jinja_bool(false);
	return jinja_bool(s.len > 0);
}

static struct jinja_value
upper_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "upper", args, NULL, 0, 0, NULL);
	return jinja_upper_text(j, s);
}

static struct jinja_value
lower_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "lower", args, NULL, 0, 0, NULL);
	return jinja_lower_text(j, s);
}

static struct jinja_value
title_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "title", args, NULL, 0, 0, NULL);
	return cased(j, s, JINJA_TITLE);
}

static struct jinja_value
casefold_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "casefold", args, NULL, 0, 0, NULL);
	return cased(j, s, JINJA_FOLD);
}

static struct jinja_value
capitalize_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	jinja_bind(j, "capitalize", args, NULL, 0, 0, NULL);
	return jinja_capitalize(j, s);
}

const struct jinja_method_entry jinja_case_methods[] = {
    {"upper", upper_method, false},
    {"lower", lower_method, false},
    {"title", title_method, false},
    {"capitalize", capitalize_method, false},
    {"swapcase", swap_case, false},
    {"casefold", casefold_method, false},
    {"isalpha", all_alpha, false},
    {"isalnum", all_alnum, false},
    {"isdigit", all_digit, false},
    {"isdecimal", all_decimal, false},
    {"isnumeric", all_numeric, false},
    {"isspace", all_space, false},
    {"isprintable", all_printable, false},
    {"isascii", is_ascii, false},
    {"isupper", is_upper, false},
    {"islower", is_lower, false},
    {"istitle", is_title_method, false},
    {"isidentifier", is_identifier, false},
    {NULL, NULL, false},
};
