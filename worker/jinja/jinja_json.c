#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

static void put_value(
    struct jinja *j, struct jinja_value v, const struct jinja_json *how, size_t level);

static void
put_escape(struct jinja *j, uint32_t c)
{
	static const char letters[] = "btnvfr"; /* of U+0008 to U+000D, \v is none of JSON's */
	char text[16];
	int n;

	if (c == '"' || c == '\\')
		n = snprintf(text, sizeof(text), "\\%c", (int)c);
	else if (c >= 8 && c <= 13 && c != 11)
		n = snprintf(text, sizeof(text), "\\%c", letters[c - 8]);
	else if (c < 0x10000)
		n = snprintf(text, sizeof(text), "\\u%04x", c);
	else
		n = snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
		    0xdc00 + ((c - 0x10000) & 0x3ff));
	jinja_put(j, text, (size_t)n);
}

static void
put_string(struct jinja *j, const char *s, size_t n, bool ascii)
{
	size_t from = 0, len;

	jinja_put(j, "\"", 1);
	for (size_t at = 0; at < n; at += len) {
		unsigned char b = (unsigned char)s[at];
		uint32_t c = b;

		len = 1;
		if (b >= ' ' && b != '"' && b != '\\' && (b < 0x7f || !ascii))
			continue;
		c = jinja_decode(s + at, n - at, &len);
		jinja_put(j, s + from, at - from);
		put_escape(j, c);
		from = at + len;
	}
	jinja_put(j, s + from, n - from);
	jinja_put(j, "\"", 1);
}

static void
put_line(struct jinja *j, const struct jinja_json *how, size_t level)
{
	if (how->indent == NULL)
		return;
	jinja_put(j, "\n", 1);
	while (level-- > 0)
		jinja_put(j, how->indent, how->indent_len);
}

static void
put_number(struct jinja *j, double v)
{
	if (isfinite(v))
		jinja_put_float(j, v);
	else
		jinja_put(j,
		    isnan(v) ? "NaN"
		    : v < 0  ? "-Infinity"
			     : "Infinity",
		    isnan(v) ? 3
		    : v < 0  ? 9
			     : 8);
}

static void
put_list(struct jinja *j, const struct jinja_list *list, const struct jinja_json *how, size_t level)
{
	jinja_put(j, "[", 1);
	for (size_t i = 0; i < list->count; i++) {
		if (i > 0)
			jinja_put(j, how->item.text, how->item.len);
		put_line(j, how, level + 1);
		put_value(j, list->at[i], how, level + 1);
	}
	if (list->count > 0)
		put_line(j, how, level);
	jinja_put(j, "]", 1);
}

/* Keys that are no strings become their JSON in quotes. */
static void
put_key(struct jinja *j, struct jinja_value key, const struct jinja_json *how)
{
	size_t from = j->out_len;

	switch (key.type) {
	case JINJA_NONE:
	case JINJA_BOOL:
	case JINJA_INT:
	case JINJA_BIG:
	case JINJA_FLOAT:
		put_value(j, key, how, 0);
		key = jinja_capture(j, from);
		break;
	case JINJA_STRING:
		break;
	default:
		jinja_fail_type(j, "keys must be str, int, float, bool or None, not %s", key);
	}
	put_string(j, key.text, key.len, how->ascii);
}

static void
put_dict(struct jinja *j, const struct jinja_dict *d, const struct jinja_json *how, size_t level)
{
	struct jinja_value items = JINJA_VALUE(ITEMS, dict, (struct jinja_dict *)d);
	const struct jinja_list *sorted =
	    how->sort ? jinja_sorted(j, items, NULL, NULL, false) : NULL;

	jinja_put(j, "{", 1);
	for (size_t i = 0; i < d->count; i++) {
		struct jinja_value key = d->entries[i].key, value = d->entries[i].value;

		if (sorted != NULL) {
			key = sorted->at[i].list->at[0];
			value = sorted->at[i].list->at[1];
		}
		if (i > 0)
			jinja_put(j, how->item.text, how->item.len);
		put_line(j, how, level + 1);
		put_key(j, key, how);
		jinja_put(j, how->key.text, how->key.len);
		put_value(j, value, how, level + 1);
	}
	if (d->count > 0)
		put_line(j, how, level);
	jinja_put(j, "}", 1);
}

static void
put_value(struct jinja *j, struct jinja_value v, const struct jinja_json *how, size_t level)
{
	jinja_enter(j);
	switch (v.type) {
	case JINJA_NONE:
		jinja_put(j, "null", 4);
		break;
	case JINJA_BOOL:
		jinja_put(j, v.boolean ? "true" : "false", v.boolean ? 4 : 5);
		break;
	case JINJA_INT:
	case JINJA_BIG:
		jinja_int_put(j, v, 10);
		break;
	case JINJA_FLOAT:
		put_number(j, v.number);
		break;
	case JINJA_STRING:
		put_string(j, v.text, v.len, how->ascii);
		break;
	case JINJA_LIST:
	case JINJA_TUPLE:
		put_list(j, v.list, how, level);
		break;
	case JINJA_DICT:
		put_dict(j, v.dict, how, level);
		break;
	default:
		jinja_fail(j, JINJA_RUNTIME, "Object of type %s is not JSON serializable",
		    jinja_type_name(v));
	}
	jinja_leave(j);
}

void
jinja_put_json(struct jinja *j, struct jinja_value v, const struct jinja_json *how)
{
	put_value(j, v, how, 0);
}
