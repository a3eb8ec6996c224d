#include <string.h>

#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_unicode.h"

struct keyed {
	struct jinja_value key, item;
};

/* Merges two sorted halves of `at` through `room`. Ties keep their order. */
static void
merge(
    struct jinja *j, struct keyed *at, struct keyed *room, size_t left, size_t count, bool reverse)
{
	size_t a = 0, b = left, n = 0;

	while (a < left && b < count) {
		bool right = reverse ? jinja_less(j, at[a].key, at[b].key)
				     : jinja_less(j, at[b].key, at[a].key);

		room[n++] = right ? at[b++] : at[a++];
	}
	while (a < left)
		room[n++] = at[a++];
	memcpy(at, room, n * sizeof(*at));
}

const struct jinja_list *
jinja_sorted(
    struct jinja *j, struct jinja_value v, jinja_key_function *key, void *state, bool reverse)
{
	const struct jinja_list *items = jinja_to_list(j, v);
	struct keyed *at = jinja_alloc_array(j, items->count, sizeof(*at));
	struct keyed *room = jinja_alloc_array(j, items->count, sizeof(*room));
	struct jinja_list *out = jinja_list_new(j, items->count);

	for (size_t i = 0; i < items->count; i++) {
		at[i].item = items->at[i];
		at[i].key = key == NULL ? at[i].item : key(j, at[i].item, state);
	}
	for (size_t width = 1; width < items->count; width *= 2)
		for (size_t i = 0; i + width < items->count; i += 2 * width) {
			size_t rest = items->count - i;

			merge(j, at + i, room, width, rest < 2 * width ? rest : 2 * width, reverse);
		}
	for (size_t i = 0; i < items->count; i++)
		jinja_append(j, out, at[i].item);
	return out;
}

const struct jinja_list *
jinja_path(struct jinja *j, struct jinja_value attribute)
{
	struct jinja_list *path = jinja_list_new(j, 2);
	const char *s = attribute.text, *end;
	size_t left = attribute.len, len;

	if (attribute.type == JINJA_NONE || attribute.type == JINJA_MISSING)
		return path;
	if (attribute.type != JINJA_STRING) {
		jinja_append(j, path, attribute);
		return path;
	}
	for (;;) {
		bool digits;
		int64_t n = 0;

		end = left > 0 ? memchr(s, '.', left) : NULL;
		len = end == NULL ? left : (size_t)(end - s);
		digits = len > 0 && len < 18;
		for (size_t i = 0; i < len; i++) {
			digits = digits && s[i] >= '0' && s[i] <= '9';
			n = digits ? n * 10 + (s[i] - '0') : 0;
		}
		jinja_append(j, path, digits ? jinja_int(n) : jinja_string(s, len));
		if (end == NULL)
			return path;
		s = end + 1;
		left -= len + 1;
	}
}

struct jinja_value
jinja_follow(struct jinja *j, struct jinja_value item, const struct jinja_list *path,
    struct jinja_value otherwise)
{
	for (size_t i = 0; i < path->count; i++) {
		item = jinja_getitem(j, item, path->at[i]);
		if (otherwise.type != JINJA_MISSING && otherwise.type != JINJA_NONE &&
		    item.type == JINJA_UNDEFINED)
			item = otherwise;
	}
	return item;
}
