#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_format.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

/* The filters of text. Each is do_<name> of Jinja's filters.py. */

#define FILTER(name)                                                                               \
	static struct jinja_value name(                                                            \
	    struct jinja *j, struct jinja_value v, const struct jinja_args *args)

FILTER(upper)
{
	jinja_bind(j, "upper", args, NULL, 0, 0, NULL);
	return jinja_upper_text(j, jinja_soft_str(j, v));
}

FILTER(lower)
{
	jinja_bind(j, "lower", args, NULL, 0, 0, NULL);
	return jinja_lower_text(j, jinja_soft_str(j, v));
}

FILTER(capitalize)
{
	jinja_bind(j, "capitalize", args, NULL, 0, 0, NULL);
	return jinja_capitalize(j, jinja_soft_str(j, v));
}

/* Words begin after white space or one of -({[<: not where str.title begins them. */
FILTER(title)
{
	size_t from = j->out_len, len;
	bool start = true;
	struct jinja_value word;

	jinja_bind(j, "title", args, NULL, 0, 0, NULL);
	v = jinja_soft_str(j, v);
	for (size_t at = 0; at < v.len; at += len) {
		uint32_t c = jinja_decode(v.text + at, v.len - at, &len);

		if (jinja_space(c) || (c < 0x80 && c != 0 && strchr("-({[<", (int)c) != NULL)) {
			jinja_put(j, v.text + at, len);
			start = true;
		} else if (start) {
			jinja_put_case(j, c, JINJA_UPPER, false);
			start = false;
		} else {
			size_t end = at + len, step;

			for (; end < v.len; end += step) {
				c = jinja_decode(v.text + end, v.len - end, &step);
				if (jinja_space(c) ||
				    (c < 0x80 && c != 0 && strchr("-({[<", (int)c) != NULL))
					break;
			}
			len = end - at;
			word = jinja_lower_text(j, jinja_string(v.text + at, len));
			jinja_put(j, word.text, word.len);
		}
	}
	return jinja_capture(j, from);
}

FILTER(trim)
{
	static const char *const names[] = {"chars"};
	struct jinja_value chars;

	jinja_bind(j, "trim", args, names, 1, 0, &chars);
	return jinja_strip(j, jinja_soft_str(j, v), chars, 0);
}

FILTER(string)
{
	jinja_bind(j, "string", args, NULL, 0, 0, NULL);
	return jinja_soft_str(j, v);
}

FILTER(safe)
{
	jinja_bind(j, "safe", args, NULL, 0, 0, NULL);
	v = jinja_soft_str(j, v);
	v.flags = JINJA_MARKUP;
	return v;
}

FILTER(escape)
{
	jinja_bind(j, "escape", args, NULL, 0, 0, NULL);
	return jinja_escape(j, v);
}

FILTER(forceescape)
{
	jinja_bind(j, "forceescape", args, NULL, 0, 0, NULL);
	return jinja_escape(j, jinja_to_str(j, v));
}

FILTER(replace)
{
	static const char *const names[] = {"old", "new", "count"};
	struct jinja_value a[3];

	jinja_bind(j, "replace", args, names, 3, 2, a);
	if (a[2].type == JINJA_NONE)
		a[2].type = JINJA_MISSING;
	if (!j->autoescape)
		return jinja_replace(j, jinja_to_str(j, v), jinja_to_str(j, a[0]),
		    jinja_to_str(j, a[1]), jinja_arg_int(j, a[2], -1));
	v = (a[0].flags | a[1].flags) & JINJA_MARKUP ? jinja_escape(j, v) : jinja_soft_str(j, v);
	return jinja_replace(
	    j, v, jinja_soft_str(j, a[0]), jinja_soft_str(j, a[1]), jinja_arg_int(j, a[2], -1));
}

FILTER(format)
{
	struct jinja_list *list;
	struct jinja_value values;

	v = jinja_soft_str(j, v);
	if (args->count > 0 && args->keywords > 0)
		jinja_fail(j, JINJA_RUNTIME,
		    "can't handle positional and keyword arguments at the same time");
	if (args->keywords > 0) {
		struct jinja_dict *named = jinja_dict_new(j, args->keywords);

		for (size_t i = 0; i < args->keywords; i++)
			jinja_dict_set(j, named, args->keyword[i].name, args->keyword[i].value);
		return jinja_percent(j, v, JINJA_VALUE(DICT, dict, named));
	}
	list = jinja_list_new(j, args->count);
	for (size_t i = 0; i < args->count; i++)
		jinja_append(j, list, args->at[i]);
	values = JINJA_VALUE(TUPLE, list, list);
	return jinja_percent(j, v, values);
}

FILTER(center)
{
	static const char *const names[] = {"width"};
	struct jinja_value width;

	jinja_bind(j, "center", args, names, 1, 0, &width);
	return jinja_pad(j, jinja_soft_str(j, v), jinja_arg_int(j, width, 80), " ", 1, 0);
}

/* The text of one line's indention. */
static struct jinja_value
indention(struct jinja *j, struct jinja_value width)
{
	size_t from = j->out_len;

	if (width.type == JINJA_STRING)
		return width;
	for (int64_t n = jinja_arg_int(j, width, 4); n > 0; n--)
		jinja_put(j, " ", 1);
	return jinja_capture(j, from);
}

FILTER(indent)
{
	static const char *const names[] = {"width", "first", "blank"};
	struct jinja_value a[3], by, newline = jinja_string("\n", 1);
	const struct jinja_list *lines;
	size_t from;
	bool blank;

	jinja_bind(j, "indent", args, names, 3, 0, a);
	by = indention(j, a[0]);
	blank = jinja_arg_bool(a[2], false);
	lines = jinja_split_lines(j, jinja_binary(j, '+', v, newline), false);
	from = j->out_len;
	for (size_t i = 0; i < lines->count; i++) {
		if (i > 0)
			jinja_put(j, "\n", 1);
		if (i == 0 ? jinja_arg_bool(a[1], false) : blank || lines->at[i].len > 0)
			jinja_put(j, by.text, by.len);
		jinja_put(j, lines->at[i].text, lines->at[i].len);
	}
	by = jinja_capture(j, from);
	by.flags = v.flags & JINJA_MARKUP;
	return by;
}

FILTER(truncate)
{
	static const char *const names[] = {"length", "killwords", "end", "leeway"};
	struct jinja_value a[4], end, cut;
	int64_t length, leeway = 5, keep, whole;
	const char *space;

	jinja_bind(j, "truncate", args, names, 4, 0, a);
	length = jinja_arg_int(j, a[0], 255);
	end = jinja_arg_string(j, a[2], "...");
	if (a[3].type != JINJA_NONE)
		leeway = jinja_arg_int(j, a[3], 5);
	keep = length - jinja_length(j, end);
	if (keep < 0 || leeway < 0)
		jinja_fail(j, JINJA_RUNTIME, "truncate: expected length >= %lld",
		    (long long)jinja_length(j, end));
	whole = jinja_length(j, v);
	if (whole >= 0 && (whole <= length || whole - length <= leeway))
		return v;
	if (v.type != JINJA_STRING)
		jinja_fail_type(j, "an object of type '%s' cannot be truncated", v);
	cut = jinja_slice(j, v, jinja_none(), jinja_int(keep), jinja_none());
	space = cut.len > 0 ? memrchr(cut.text, ' ', cut.len) : NULL;
	if (!jinja_arg_bool(a[1], false) && space != NULL)
		cut.len = (uint32_t)(space - cut.text);
	cut.flags &= JINJA_MARKUP;
	return jinja_binary(j, '+', cut, end);
}

FILTER(wordcount)
{
	int64_t words = 0;
	bool inside = false;
	size_t len;

	jinja_bind(j, "wordcount", args, NULL, 0, 0, NULL);
	v = jinja_soft_str(j, v);
	jinja_pay(j, v.len * (size_t)8);
	for (size_t at = 0; at < v.len; at += len) {
		bool word = jinja_word(jinja_decode(v.text + at, v.len - at, &len));

		words += word && !inside;
		inside = word;
	}
	return jinja_int(words);
}

/* Separators: a pair of strings. */
static void
separators(struct jinja *j, struct jinja_value v, struct jinja_json *how)
{
	const struct jinja_list *pair;

	if (v.type == JINJA_MISSING || v.type == JINJA_NONE)
		return;
	pair = jinja_to_list(j, v);
	if (pair->count != 2)
		jinja_fail(j, JINJA_RUNTIME, "separators must be a pair");
	how->item = jinja_arg_string(j, pair->at[0], NULL);
	how->key = jinja_arg_string(j, pair->at[1], NULL);
}

FILTER(tojson)
{
	static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
	struct jinja_json how = {.item = jinja_string(", ", 2), .key = jinja_string(": ", 2)};
	struct jinja_value a[4], by;
	size_t from;

	jinja_bind(j, "tojson", args, names, 4, 0, a);
	how.ascii = jinja_arg_bool(a[0], false);
	how.sort = jinja_arg_bool(a[3], false);
	if (a[1].type != JINJA_MISSING && a[1].type != JINJA_NONE) {
		by = indention(j, a[1]);
		how.indent = by.text;
		how.indent_len = by.len;
		how.item = jinja_string(",", 1);
	}
	separators(j, a[2], &how);
	from = j->out_len;
	jinja_put_json(j, v, &how);
	return jinja_capture(j, from);
}

const struct jinja_filter jinja_text_filters[] = {
    {"tojson", tojson},
    {"trim", trim},
    {"string", string},
    {"safe", safe},
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"replace", replace},
    {"format", format},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {NULL, NULL},
};

const struct jinja_filter *
jinja_filter_find(struct jinja_value name)
{
	const struct jinja_filter *const tables[] = {
	    jinja_text_filters, jinja_sequence_filters, jinja_lazy_filters, jinja_number_filters};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct jinja_filter *f = tables[i]; f->name != NULL; f++)
			if (jinja_string_is(name, f->name))
				return f;
	return NULL;
}

bool
jinja_filter_refused(struct jinja_value name)
{
	static const char *const names[] = {"filesizeformat", "pprint", "random", "striptags",
	    "urlencode", "urlize", "wordwrap", "xmlattr"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (jinja_string_is(name, names[i]))
			return true;
	return false;
}
