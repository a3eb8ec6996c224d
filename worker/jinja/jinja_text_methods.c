#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

static struct jinja_value
like(struct jinja_value s, const char *text, size_t len)
{
	struct jinja_value v = jinja_string(text, len);

	v.flags = s.flags & JINJA_MARKUP;
	return v;
}

static struct jinja_value
captured_like(struct jinja *j, struct jinja_value s, size_t from)
{
	struct jinja_value v = jinja_capture(j, from);

	v.flags = s.flags & JINJA_MARKUP;
	return v;
}

/* Bytes at the start (or end) of s that are characters of `chars`. */
static size_t
span(struct jinja *j, struct jinja_value s, struct jinja_value chars, bool left)
{
	size_t at = 0, len;

	while (at < s.len) {
		const char *c;

		if (left) {
			c = s.text + at;
			jinja_decode(c, s.len - at, &len);
		} else {
			c = s.text + s.len - at - 1;
			for (len = 1; ((unsigned char)*c & 0xc0) == 0x80 && c > s.text && len < 4;
			     len++)
				c--;
		}
		jinja_pay(j, chars.len);
		/* A whole character is found in UTF-8 only where it stands. */
		if (memmem(chars.text, chars.len, c, len) == NULL)
			break;
		at += len;
	}
	return at;
}

struct jinja_value
jinja_strip(struct jinja *j, struct jinja_value s, struct jinja_value chars, int side)
{
	bool space = chars.type == JINJA_NONE || chars.type == JINJA_MISSING;
	size_t cut;

	if (!space && chars.type != JINJA_STRING)
		jinja_fail_type(j, "strip arg must be None or str, not %s", chars);
	if (side <= 0) {
		cut = space ? jinja_left_space(s.text, s.len) : span(j, s, chars, true);
		jinja_pay(j, cut);
		s = like(s, s.text + cut, s.len - cut);
	}
	if (side >= 0) {
		cut = space ? jinja_right_space(s.text, s.len) : span(j, s, chars, false);
		jinja_pay(j, cut);
		s = like(s, s.text, s.len - cut);
	}
	return s;
}

static struct jinja_value
strip_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args, int side)
{
	struct jinja_value chars;

	jinja_bind(j, "strip", args, NULL, 1, 0, &chars);
	return jinja_strip(j, s, chars, side);
}

static struct jinja_value
strip_both(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return strip_method(j, s, args, 0);
}

static struct jinja_value
strip_left(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return strip_method(j, s, args, -1);
}

static struct jinja_value
strip_right(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return strip_method(j, s, args, 1);
}

/* s[start:end] by the optional arguments of find, count, startswith ...; *base: characters before
   it. false: the range lies outside. */
static bool
subrange(struct jinja *j, struct jinja_value *s, struct jinja_value start, struct jinja_value end,
    int64_t *base)
{
	int64_t count;

	*base = 0;
	if ((start.type == JINJA_MISSING || start.type == JINJA_NONE) &&
	    (end.type == JINJA_MISSING || end.type == JINJA_NONE))
		return true;
	count = jinja_length(j, *s);
	if (start.type != JINJA_MISSING && start.type != JINJA_NONE) {
		*base = jinja_to_int64(j, start, "a string index");
		if (*base < 0)
			*base = *base + count < 0 ? 0 : *base + count;
		if (*base > count)
			return false;
	}
	*s = jinja_slice(j, *s, jinja_int(*base), end, jinja_none());
	return true;
}

static bool
has_affix(
    struct jinja *j, struct jinja_value s, struct jinja_value affix, bool start, const char *name)
{
	bool any = false;

	if (affix.type == JINJA_TUPLE) {
		for (size_t i = 0; i < affix.list->count && !any; i++) {
			struct jinja_value each = affix.list->at[i];

			if (each.type != JINJA_STRING)
				jinja_fail(
				    j, JINJA_RUNTIME, "tuple for %s must only contain str", name);
			any = has_affix(j, s, each, start, name);
		}
		return any;
	}
	if (affix.type != JINJA_STRING)
		jinja_fail_type(j,
		    "startswith or endswith first arg must be str or a tuple of str, not %s",
		    affix);
	return affix.len <= s.len &&
	       memcmp(start ? s.text : s.text + s.len - affix.len, affix.text, affix.len) == 0;
}

static struct jinja_value
starts_with(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a[3];
	int64_t base;

	jinja_bind(j, "startswith", args, NULL, 3, 1, a);
	return jinja_bool(
	    subrange(j, &s, a[1], a[2], &base) && has_affix(j, s, a[0], true, "startswith"));
}

static struct jinja_value
ends_with(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a[3];
	int64_t base;

	jinja_bind(j, "endswith", args, NULL, 3, 1, a);
	return jinja_bool(
	    subrange(j, &s, a[1], a[2], &base) && has_affix(j, s, a[0], false, "endswith"));
}

static const char *
find_last(struct jinja_value s, struct jinja_value what)
{
	for (size_t i = s.len >= what.len ? s.len - what.len + 1 : 0; i-- > 0;)
		if (memcmp(s.text + i, what.text, what.len) == 0)
			return s.text + i;
	return NULL;
}

/* The index in characters, or -1. */
static int64_t
find(struct jinja *j, struct jinja_value s, const struct jinja_args *args, bool last)
{
	struct jinja_value a[3];
	const char *at;
	int64_t base;

	jinja_bind(j, "find", args, NULL, 3, 1, a);
	a[0] = jinja_arg_string(j, a[0], NULL);
	if (!subrange(j, &s, a[1], a[2], &base))
		return -1;
	jinja_pay(j, last ? (size_t)s.len * (a[0].len / 8 + 1) : s.len);
	at = last ? find_last(s, a[0]) : memmem(s.text, s.len, a[0].text, a[0].len);
	if (a[0].len == 0 && !last)
		at = s.text;
	return at == NULL ? -1 : base + (int64_t)jinja_chars(s.text, (size_t)(at - s.text));
}

static struct jinja_value
find_first_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return jinja_int(find(j, s, args, false));
}

static struct jinja_value
find_last_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return jinja_int(find(j, s, args, true));
}

static struct jinja_value
index_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	int64_t at = find(j, s, args, false);

	if (at < 0)
		jinja_fail(j, JINJA_RUNTIME, "substring not found");
	return jinja_int(at);
}

static struct jinja_value
rindex_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	int64_t at = find(j, s, args, true);

	if (at < 0)
		jinja_fail(j, JINJA_RUNTIME, "substring not found");
	return jinja_int(at);
}

static struct jinja_value
count_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a[3];
	int64_t base, count = 0;
	const char *at, *end;

	jinja_bind(j, "count", args, NULL, 3, 1, a);
	a[0] = jinja_arg_string(j, a[0], NULL);
	if (!subrange(j, &s, a[1], a[2], &base))
		return jinja_int(0);
	if (a[0].len == 0)
		return jinja_int(jinja_length(j, s) + 1);
	jinja_pay(j, s.len);
	end = s.text + s.len;
	for (at = s.text; (at = memmem(at, (size_t)(end - at), a[0].text, a[0].len)) != NULL;
	     at += a[0].len)
		count++;
	return jinja_int(count);
}

/* "" is found before every character and at the end. */
static struct jinja_value
replace_empty(struct jinja *j, struct jinja_value s, struct jinja_value new, int64_t count)
{
	size_t from = j->out_len, len;

	for (size_t at = 0; at <= s.len; at += len) {
		if (count < 0 || count-- > 0)
			jinja_put(j, new.text, new.len);
		else
			count = 0;
		if (at == s.len)
			break;
		jinja_decode(s.text + at, s.len - at, &len);
		jinja_put(j, s.text + at, len);
	}
	return captured_like(j, s, from);
}

struct jinja_value
jinja_replace(struct jinja *j, struct jinja_value s, struct jinja_value old, struct jinja_value new,
    int64_t count)
{
	size_t from = j->out_len;
	const char *at = s.text, *end = s.text + s.len, *next;

	if (s.flags & JINJA_MARKUP)
		new = jinja_escape(j, new);
	if (old.len == 0)
		return replace_empty(j, s, new, count);
	jinja_pay(j, s.len);
	while (count != 0 && (next = memmem(at, (size_t)(end - at), old.text, old.len)) != NULL) {
		jinja_put(j, at, (size_t)(next - at));
		jinja_put(j, new.text, new.len);
		at = next + old.len;
		count -= count > 0;
	}
	if (at == s.text)
		return like(s, s.text, s.len);
	jinja_put(j, at, (size_t)(end - at));
	return captured_like(j, s, from);
}

static struct jinja_value
replace_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a[3];

	jinja_bind(j, "replace", args, NULL, 3, 2, a);
	return jinja_replace(j, s, jinja_arg_string(j, a[0], NULL), jinja_arg_string(j, a[1], NULL),
	    jinja_arg_int(j, a[2], -1));
}

static struct jinja_value
join_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	size_t from = j->out_len, count = 0;
	struct jinja_value items, item;
	struct jinja_iterator *it;

	jinja_bind(j, "join", args, NULL, 1, 1, &items);
	for (it = jinja_iterate(j, items); jinja_iterator_next(j, it, &item); count++) {
		if (s.flags & JINJA_MARKUP)
			item = jinja_escape(j, item);
		if (item.type != JINJA_STRING)
			jinja_fail(j, JINJA_RUNTIME,
			    "sequence item %zu: expected str instance, %s found", count,
			    jinja_type_name(item));
		if (count > 0)
			jinja_put(j, s.text, s.len);
		jinja_put(j, item.text, item.len);
	}
	return captured_like(j, s, from);
}

static struct jinja_value
remove_prefix(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a;

	jinja_bind(j, "removeprefix", args, NULL, 1, 1, &a);
	a = jinja_arg_string(j, a, NULL);
	return has_affix(j, s, a, true, "") ? like(s, s.text + a.len, s.len - a.len) : s;
}

static struct jinja_value
remove_suffix(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	struct jinja_value a;

	jinja_bind(j, "removesuffix", args, NULL, 1, 1, &a);
	a = jinja_arg_string(j, a, NULL);
	return has_affix(j, s, a, false, "") ? like(s, s.text, s.len - a.len) : s;
}

const struct jinja_method_entry jinja_text_methods[] = {
    {"strip", strip_both, false},
    {"lstrip", strip_left, false},
    {"rstrip", strip_right, false},
    {"startswith", starts_with, false},
    {"endswith", ends_with, false},
    {"replace", replace_method, false},
    {"join", join_method, false},
    {"find", find_first_method, false},
    {"rfind", find_last_method, false},
    {"index", index_method, false},
    {"rindex", rindex_method, false},
    {"count", count_method, false},
    {"removeprefix", remove_prefix, false},
    {"removesuffix", remove_suffix, false},
    {"encode", NULL, false},
    {"maketrans", NULL, false},
    {"translate", NULL, false},
    {NULL, NULL, false},
};
