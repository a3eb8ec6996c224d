#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_format.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_unicode.h"

static struct jinja_value
captured_like(struct jinja *j, struct jinja_value s, size_t from)
{
	struct jinja_value v = jinja_capture(j, from);

	v.flags = s.flags & JINJA_MARKUP;
	return v;
}

struct jinja_value
jinja_pad(struct jinja *j, struct jinja_value s, int64_t width, const char *fill, size_t fill_len,
    int side)
{
	size_t from = j->out_len;
	int64_t room = width - jinja_length(j, s), left;

	if (room <= 0)
		return s;
	/* CPython's str.center: the odd space goes left where the width is odd. */
	left = side < 0 ? 0 : side > 0 ? room : room / 2 + (room & width & 1);
	for (int64_t i = 0; i < left; i++)
		jinja_put(j, fill, fill_len);
	jinja_put(j, s.text, s.len);
	for (int64_t i = left; i < room; i++)
		jinja_put(j, fill, fill_len);
	return captured_like(j, s, from);
}

static struct jinja_value
pad_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args, int side)
{
	struct jinja_value a[2];

	jinja_bind(j, "a padding method", args, NULL, 2, 1, a);
	a[1] = jinja_arg_string(j, a[1], " ");
	if (jinja_chars(a[1].text, a[1].len) != 1)
		jinja_fail(
		    j, JINJA_RUNTIME, "The fill character must be exactly one character long");
	return jinja_pad(j, s, jinja_to_int64(j, a[0], "a width"), a[1].text, a[1].len, side);
}

static struct jinja_value
center_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return pad_method(j, s, args, 0);
}

static struct jinja_value
ljust_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return pad_method(j, s, args, -1);
}

static struct jinja_value
rjust_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return pad_method(j, s, args, 1);
}

static struct jinja_value
zfill_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	bool sign = s.len > 0 && (s.text[0] == '-' || s.text[0] == '+');
	size_t from = j->out_len;
	struct jinja_value a, digits;
	int64_t width;

	jinja_bind(j, "zfill", args, NULL, 1, 1, &a);
	width = jinja_to_int64(j, a, "a width");
	digits = jinja_pad(j, jinja_string(s.text + sign, s.len - sign), width - sign, "0", 1, 1);
	jinja_put(j, s.text, sign);
	jinja_put(j, digits.text, digits.len);
	return captured_like(j, s, from);
}

static struct jinja_value
expand_tabs(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	static const char *const names[] = {"tabsize"};
	size_t from = j->out_len;
	struct jinja_value a;
	int64_t size, column = 0;

	jinja_bind(j, "expandtabs", args, names, 1, 0, &a);
	size = jinja_arg_int(j, a, 8);
	for (size_t i = 0; i < s.len; i++) {
		if (s.text[i] == '\t') {
			for (int64_t n = size > 0 ? size - column % size : 0; n > 0; n--, column++)
				jinja_put(j, " ", 1);
			continue;
		}
		jinja_put(j, s.text + i, 1);
		column += ((unsigned char)s.text[i] & 0xc0) != 0x80;
		if (s.text[i] == '\n' || s.text[i] == '\r')
			column = 0;
	}
	return captured_like(j, s, from);
}

static struct jinja_value
format_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return jinja_format(j, s, args, NULL);
}

static struct jinja_value
format_map(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value map;

	jinja_bind(j, "format_map", args, NULL, 1, 1, &map);
	return jinja_format(j, s, &(struct jinja_args){0}, &map);
}

const struct jinja_method_entry jinja_layout_methods[] = {
    {"center", center_method, false},
    {"ljust", ljust_method, false},
    {"rjust", rjust_method, false},
    {"zfill", zfill_method, false},
    {"expandtabs", expand_tabs, false},
    {"format", format_method, false},
    {"format_map", format_map, false},
    {NULL, NULL, false},
};
