#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_unicode.h"

static struct jinja_value
part(struct jinja_value s, const char *text, const char *end)
{
	struct jinja_value v = jinja_string(text, (size_t)(end - text));

	v.flags = s.flags & JINJA_MARKUP;
	return v;
}

static void
split_by(struct jinja *j, struct jinja_value s, struct jinja_value by, int64_t most,
    struct jinja_list *out)
{
	const char *at = s.text, *end = s.text + s.len, *next;

	while (most != 0 && (next = memmem(at, (size_t)(end - at), by.text, by.len)) != NULL) {
		jinja_append(j, out, part(s, at, next));
		at = next + by.len;
		most -= most > 0;
		jinja_pay(j, 0);
	}
	jinja_append(j, out, part(s, at, end));
}

static void
split_space(struct jinja *j, struct jinja_value s, int64_t most, struct jinja_list *out)
{
	const char *at = s.text, *end = s.text + s.len, *start;
	size_t len;

	for (;;) {
		at += jinja_left_space(at, (size_t)(end - at));
		if (at == end)
			return;
		if (most == 0) {
			jinja_append(
			    j, out, part(s, at, end - jinja_right_space(at, (size_t)(end - at))));
			return;
		}
		for (start = at;
		     at < end && !jinja_space(jinja_decode(at, (size_t)(end - at), &len));)
			at += len;
		jinja_append(j, out, part(s, start, at));
		most -= most > 0;
	}
}

static struct jinja_value
reversed(struct jinja *j, const struct jinja_list *list)
{
	struct jinja_list *out = jinja_list_new(j, list->count);

	for (size_t i = list->count; i-- > 0;)
		jinja_append(j, out, list->at[i]);
	return JINJA_VALUE(LIST, list, out);
}

static const char *
last_of(struct jinja_value s, const char *end, struct jinja_value by)
{
	size_t n = (size_t)(end - s.text);

	for (size_t at = n < by.len ? 0 : n - by.len + 1; at-- > 0;)
		if (memcmp(s.text + at, by.text, by.len) == 0)
			return s.text + at;
	return NULL;
}

static void
rsplit_by(struct jinja *j, struct jinja_value s, struct jinja_value by, int64_t most,
    struct jinja_list *out)
{
	const char *end = s.text + s.len, *at;

	jinja_pay(j, (size_t)s.len * (by.len / 8 + 1));
	while (most != 0 && (at = last_of(s, end, by)) != NULL) {
		jinja_append(j, out, part(s, at + by.len, end));
		end = at;
		most -= most > 0;
		jinja_pay(j, 0);
	}
	jinja_append(j, out, part(s, s.text, end));
}

static void
rsplit_space(struct jinja *j, struct jinja_value s, int64_t most, struct jinja_list *out)
{
	const char *end = s.text + s.len, *at;

	for (;;) {
		size_t len;

		end -= jinja_right_space(s.text, (size_t)(end - s.text));
		if (end == s.text)
			return;
		if (most == 0) {
			jinja_append(j, out, part(s, s.text, end));
			return;
		}
		for (at = end; at > s.text; at -= len) {
			const char *c = at - 1;
			size_t step;

			for (len = 1; ((unsigned char)*c & 0xc0) == 0x80 && c > s.text && len < 4;
			     len++)
				c--;
			if (jinja_space(jinja_decode(c, len, &step)))
				break;
		}
		jinja_append(j, out, part(s, at, end));
		end = at;
		most -= most > 0;
	}
}

static struct jinja_value
split(struct jinja *j, struct jinja_value s, const struct jinja_args *args, bool right)
{
	static const char *const names[] = {"sep", "maxsplit"};
	struct jinja_list *out = jinja_list_new(j, 4);
	struct jinja_value a[2];
	int64_t most;

	jinja_bind(j, "split", args, names, 2, 0, a);
	most = jinja_arg_int(j, a[1], -1);
	jinja_pay(j, s.len);
	if (a[0].type == JINJA_MISSING || a[0].type == JINJA_NONE) {
		(right ? rsplit_space : split_space)(j, s, most, out);
	} else {
		a[0] = jinja_arg_string(j, a[0], NULL);
		if (a[0].len == 0)
			jinja_fail(j, JINJA_RUNTIME, "empty separator");
		(right ? rsplit_by : split_by)(j, s, a[0], most, out);
	}
	return right ? reversed(j, out) : JINJA_VALUE(LIST, list, out);
}

static struct jinja_value
split_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return split(j, s, args, false);
}

static struct jinja_value
rsplit_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return split(j, s, args, true);
}

static struct jinja_value
partition(struct jinja *j, struct jinja_value s, const struct jinja_args *args, bool last)
{
	struct jinja_list *out = jinja_list_new(j, 3);
	const char *end = s.text + s.len, *at;
	struct jinja_value by;

	jinja_bind(j, "partition", args, NULL, 1, 1, &by);
	by = jinja_arg_string(j, by, NULL);
	if (by.len == 0)
		jinja_fail(j, JINJA_RUNTIME, "empty separator");
	jinja_pay(j, last ? (size_t)s.len * (by.len / 8 + 1) : s.len);
	at = last ? last_of(s, end, by) : memmem(s.text, s.len, by.text, by.len);
	if (at != NULL) {
		jinja_append(j, out, part(s, s.text, at));
		jinja_append(j, out, part(s, at, at + by.len));
		jinja_append(j, out, part(s, at + by.len, end));
	} else {
		for (int i = 0; i < 3; i++)
			jinja_append(
			    j, out, i == (last ? 2 : 0) ? part(s, s.text, end) : part(s, end, end));
	}
	return JINJA_VALUE(TUPLE, list, out);
}

static struct jinja_value
partition_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return partition(j, s, args, false);
}

static struct jinja_value
rpartition_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	return partition(j, s, args, true);
}

static bool
is_line_end(uint32_t c)
{
	return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
	       c == 0x2029;
}

const struct jinja_list *
jinja_split_lines(struct jinja *j, struct jinja_value s, bool keep)
{
	struct jinja_list *out = jinja_list_new(j, 8);
	const char *start = s.text, *end = s.text + s.len;
	size_t len;

	jinja_pay(j, s.len);
	for (const char *at = s.text; at < end; at += len) {
		uint32_t c = jinja_decode(at, (size_t)(end - at), &len);

		if (!is_line_end(c))
			continue;
		if (c == '\r' && at + 1 < end && at[1] == '\n')
			len = 2;
		jinja_append(j, out, part(s, start, keep ? at + len : at));
		start = at + len;
	}
	if (start < end)
		jinja_append(j, out, part(s, start, end));
	return out;
}

static struct jinja_value
split_lines_method(struct jinja *j, struct jinja_value s, const struct jinja_args *args)
{
	static const char *const names[] = {"keepends"};
	struct jinja_value keep;

	jinja_bind(j, "splitlines", args, names, 1, 0, &keep);
	return JINJA_VALUE(LIST, list, jinja_split_lines(j, s, jinja_arg_bool(keep, false)));
}

const struct jinja_method_entry jinja_split_methods[] = {
    {"split", split_method, false},
    {"rsplit", rsplit_method, false},
    {"splitlines", split_lines_method, false},
    {"partition", partition_method, false},
    {"rpartition", rpartition_method, false},
    {NULL, NULL, false},
};
