#include "worker/jinja/jinja_format.h"

#include <string.h>

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

struct format {
	struct jinja *j;
	const struct jinja_args *args;
	const struct jinja_value *map;
	size_t automatic;	/* fields numbered so far */
	bool numbered, counted; /* {0} and {} do not mix */
	bool markup;
};

/* Up to the character that ends the text: one of `stops`, or the end. */
static size_t
until(const char *s, size_t n, const char *stops)
{
	size_t i = 0;

	while (i < n && (s[i] == '\0' || strchr(stops, s[i]) == NULL))
		i++;
	return i;
}

static bool
is_number(const char *s, size_t n, size_t *out)
{
	*out = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || *out > 1000000)
			return false;
		*out = *out * 10 + (size_t)(s[i] - '0');
	}
	return n > 0;
}

static struct jinja_value
positional(struct format *f, size_t at)
{
	if (at >= f->args->count)
		jinja_fail(f->j, JINJA_RUNTIME,
		    "Replacement index %zu out of range for positional args tuple", at);
	return f->args->at[at];
}

static struct jinja_value
first_value(struct format *f, const char *name, size_t n)
{
	size_t at;
	const struct jinja_value *v;

	if (n == 0 || is_number(name, n, &at)) {
		*(n == 0 ? &f->counted : &f->numbered) = true;
		if (f->counted && f->numbered)
			jinja_fail(
			    f->j, JINJA_RUNTIME, "cannot mix automatic and manual field numbering");
		return positional(f, n == 0 ? f->automatic++ : at);
	}
	if (f->map != NULL)
		return jinja_getitem(f->j, *f->map, jinja_string(name, n));
	for (size_t i = 0; i < f->args->keywords; i++) {
		v = &f->args->keyword[i].name;
		if (v->len == n && memcmp(v->text, name, n) == 0)
			return f->args->keyword[i].value;
	}
	jinja_fail(f->j, JINJA_RUNTIME, "KeyError: '%.*s'", n > 80 ? 80 : (int)n, name);
}

/* name.attribute[index]... */
static struct jinja_value
field_value(struct format *f, const char *s, size_t n)
{
	size_t at = until(s, n, ".["), len, index;
	struct jinja_value v = first_value(f, s, at);

	while (at < n) {
		bool attribute = s[at++] == '.';

		len = until(s + at, n - at, attribute ? ".[" : "]");
		if (len == 0 || (!attribute && at + len == n))
			jinja_fail(f->j, JINJA_RUNTIME, "Empty attribute in format string");
		if (attribute)
			v = jinja_getattr(f->j, v, jinja_string(s + at, len));
		else if (is_number(s + at, len, &index))
			v = jinja_getitem(f->j, v, jinja_int((int64_t)index));
		else
			v = jinja_getitem(f->j, v, jinja_string(s + at, len));
		at += len + !attribute;
	}
	return v;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static struct jinja_spec
parse_spec(struct format *f, struct jinja_value text)
{
	struct jinja_spec spec = {.precision = -1};
	const char *s = text.text, *end = s + text.len;
	size_t len = 0, n;

	if (s < end)
		jinja_decode(s, text.len, &len);
	if (len > 0 && s + len < end && strchr("<>=^", s[len]) != NULL && s[len] != '\0') {
		spec.fill = jinja_decode(s, text.len, &len);
		spec.align = s[len];
		s += len + 1;
	} else if (s < end && *s != '\0' && strchr("<>=^", *s) != NULL) {
		spec.align = *s++;
	}
	if (s < end && (*s == '+' || *s == '-' || *s == ' '))
		spec.sign = *s++;
	if (s < end && *s == '#')
		spec.alternate = (s++, true);
	if (s < end && *s == '0')
		spec.zero = (s++, true);
	n = until(s, (size_t)(end - s), ",_.bcdeEfFgGnosxX%");
	if (n > 0 && is_number(s, n, &len)) {
		spec.width = (int)len;
		s += n;
	}
	if (s < end && (*s == ',' || *s == '_'))
		spec.group = *s++;
	if (s < end && *s == '.') {
		s++;
		n = until(s, (size_t)(end - s), "bcdeEfFgGnosxX%");
		if (!is_number(s, n, &len))
			jinja_fail(f->j, JINJA_RUNTIME, "Format specifier missing precision");
		spec.precision = (int)len;
		s += n;
	}
	if (s < end)
		spec.type = *s++;
	if (s < end)
		jinja_fail(f->j, JINJA_RUNTIME, "Invalid format specifier");
	return spec;
}

/* Whether a value of this type takes such a spec, as its __format__ decides in Python. */
static bool
spec_fits(struct jinja_value v, const struct jinja_spec *spec)
{
	const char *types;

	if (v.type == JINJA_STRING)
		return (spec->type == 0 || spec->type == 's') && spec->sign == 0 &&
		       spec->align != '=' && spec->group == 0 && !spec->alternate;
	if (!jinja_is_number(v))
		return false;
	types = v.type == JINJA_FLOAT ? "eEfFgGn%" : "bdoxXneEfFgG%";
	if (spec->type == 'c')
		return v.type != JINJA_FLOAT && spec->sign == 0 && spec->precision < 0;
	if (spec->type != 0 && strchr(types, spec->type) == NULL)
		return false;
	if (spec->group == ',' && spec->type != 0 && strchr("bnoxX", spec->type) != NULL)
		return false;
	return v.type == JINJA_FLOAT || spec->precision < 0 ||
	       (spec->type != 0 && strchr("eEfFgG%", spec->type) != NULL);
}

static void
put_formatted(struct format *f, struct jinja_value v, struct jinja_spec spec)
{
	char text[4];
	int64_t c;

	if (v.type != JINJA_STRING && spec.type != 'c') {
		spec.type = spec.type == 'n' && v.type != JINJA_FLOAT ? 'd' : spec.type;
		jinja_put_number(f->j, v, &spec);
		return;
	}
	if (spec.zero && spec.fill == 0)
		spec.fill = '0';
	if (v.type != JINJA_STRING) {
		c = jinja_to_int64(f->j, v, "%c");
		if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			jinja_fail(f->j, JINJA_RUNTIME, "%%c arg not in range(0x110000)");
		v = jinja_string_copy(f->j, text, jinja_encode((uint32_t)c, text));
	}
	jinja_put_text(f->j, v, &spec);
}

static void
put_value(struct format *f, struct jinja_value v, struct jinja_value text)
{
	size_t from = f->j->out_len;
	struct jinja_spec spec;

	if (text.len == 0) {
		jinja_put_str(f->j, v);
	} else {
		spec = parse_spec(f, text);
		if (!spec_fits(v, &spec))
			jinja_fail_type(
			    f->j, "unsupported format string for an object of type '%s'", v);
		put_formatted(f, v, spec);
	}
	if (f->markup && !(v.type == JINJA_STRING && (v.flags & JINJA_MARKUP))) {
		v = jinja_escape(f->j, jinja_capture(f->j, from));
		jinja_put(f->j, v.text, v.len);
	}
}

static void put_format(struct format *f, const char *s, size_t n, int depth);

/* The inside of one {...}. */
static void
put_field(struct format *f, const char *s, size_t n, int depth)
{
	size_t name = until(s, n, "!:"), at = name, from = f->j->out_len;
	struct jinja_value v, spec = jinja_string("", 0);
	char conversion = 0;

	/* An index may hold what would end the name. */
	if (memchr(s, '[', name) != NULL && memchr(s, ']', name) == NULL) {
		const char *close = memchr(s, ']', n);

		if (close != NULL)
			name = at =
			    (size_t)(close - s) + until(close, n - (size_t)(close - s), "!:");
	}
	v = field_value(f, s, name);
	if (at < n && s[at] == '!') {
		conversion = at + 1 < n ? s[at + 1] : 0;
		at += 2;
		if ((conversion != 'r' && conversion != 's' && conversion != 'a') ||
		    (at < n && s[at] != ':'))
			jinja_fail(f->j, JINJA_RUNTIME, "Unknown conversion specifier");
	}
	if (at < n) {
		put_format(f, s + at + 1, n - at - 1, depth + 1);
		spec = jinja_capture(f->j, from);
	}
	if (conversion != 0)
		v = conversion == 's' ? jinja_to_str(f->j, v) : jinja_to_repr(f->j, v);
	put_value(f, v, spec);
}

static void
put_format(struct format *f, const char *s, size_t n, int depth)
{
	if (depth > 2)
		jinja_fail(f->j, JINJA_RUNTIME, "Max string recursion exceeded");
	for (size_t i = 0, len; i < n;) {
		int open = 1;

		len = until(s + i, n - i, "{}");
		jinja_put(f->j, s + i, len);
		i += len;
		if (i == n)
			break;
		if (i + 1 < n && s[i] == s[i + 1] && depth == 0) {
			jinja_put(f->j, s + i, 1);
			i += 2;
			continue;
		}
		if (s[i] == '}')
			jinja_fail(f->j, JINJA_RUNTIME, "Single '}' encountered in format string");
		for (len = 1; i + len < n && open > 0; len++)
			open += s[i + len] == '{' ? 1 : s[i + len] == '}' ? -1 : 0;
		if (open > 0)
			jinja_fail(f->j, JINJA_RUNTIME, "expected '}' before end of string");
		put_field(f, s + i + 1, len - 2, depth);
		i += len;
	}
}

struct jinja_value
jinja_format(struct jinja *j, struct jinja_value format, const struct jinja_args *args,
    const struct jinja_value *map)
{
	struct format f = {
	    .j = j, .args = args, .map = map, .markup = (format.flags & JINJA_MARKUP) != 0};
	size_t from = j->out_len;
	struct jinja_value out;

	put_format(&f, format.text, format.len, 0);
	out = jinja_capture(j, from);
	out.flags = format.flags & JINJA_MARKUP;
	return out;
}
