#include <stdio.h>
#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_repr.h"

enum { RANGE_MAX = 100000 }; /* the sandbox's */

static struct jinja_value
global_range(struct jinja *j, const struct jinja_args *args)
{
	struct jinja_range *r = jinja_alloc(j, sizeof(*r));
	struct jinja_value a[3];
	__int128 span;
	int64_t values[3] = {0, 0, 1};

	jinja_bind(j, "range", args, NULL, 3, 1, a);
	for (size_t i = 0; i < args->count; i++)
		values[i] = jinja_to_int64(j, a[i], "range()");
	if (args->count == 1) {
		values[1] = values[0];
		values[0] = 0;
	}
	r->start = values[0];
	r->stop = values[1];
	r->step = values[2];
	if (r->step == 0)
		jinja_fail(j, JINJA_RUNTIME, "range() arg 3 must not be zero");
	span = r->step > 0 ? (__int128)r->stop - r->start : (__int128)r->start - r->stop;
	if (span > 0) {
		__int128 by = r->step > 0 ? r->step : -(__int128)r->step;

		span = (span + by - 1) / by;
		if (span > RANGE_MAX)
			jinja_fail(j, JINJA_RUNTIME,
			    "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
			    RANGE_MAX);
		r->count = (size_t)span;
	}
	return JINJA_VALUE(RANGE, range, r);
}

/* dict(mapping or pairs, **more) */
static struct jinja_dict *
make_dict(struct jinja *j, const struct jinja_args *args)
{
	struct jinja_dict *d = jinja_dict_new(j, args->keywords);
	struct jinja_iterator *it;
	struct jinja_value pair;
	const struct jinja_list *both;

	if (args->count > 1)
		jinja_fail(
		    j, JINJA_RUNTIME, "dict expected at most 1 argument, got %zu", args->count);
	if (args->count == 1 && args->at[0].type == JINJA_DICT) {
		d = jinja_dict_copy(j, args->at[0].dict);
	} else if (args->count == 1) {
		it = jinja_iterate(j, args->at[0]);
		while (jinja_iterator_next(j, it, &pair)) {
			both = jinja_to_list(j, pair);
			if (both->count != 2)
				jinja_fail(j, JINJA_RUNTIME,
				    "dictionary update sequence element has length %zu; 2 is "
				    "required",
				    both->count);
			jinja_dict_set(j, d, both->at[0], both->at[1]);
		}
	}
	for (size_t i = 0; i < args->keywords; i++)
		jinja_dict_set(j, d, args->keyword[i].name, args->keyword[i].value);
	return d;
}

static struct jinja_value
global_dict(struct jinja *j, const struct jinja_args *args)
{
	return JINJA_VALUE(DICT, dict, make_dict(j, args));
}

static struct jinja_value
global_namespace(struct jinja *j, const struct jinja_args *args)
{
	struct jinja_dict *d = make_dict(j, args);

	for (size_t i = 0; i < d->count; i++) {
		struct jinja_value key = d->entries[i].key;

		if (key.type == JINJA_STRING && key.len > 0 && key.text[0] == '_')
			jinja_fail(j, JINJA_RUNTIME,
			    "Chat templates cannot store underscore-prefixed attributes on a "
			    "namespace, "
			    "but got '%.*s'. Please rename the attribute.",
			    key.len > 80 ? 80 : (int)key.len, key.text);
	}
	return JINJA_VALUE(NAMESPACE, dict, d);
}

static struct jinja_value
global_cycler(struct jinja *j, const struct jinja_args *args)
{
	struct jinja_cycler *c = jinja_alloc(j, sizeof(*c));
	struct jinja_list *items = jinja_list_new(j, args->count);

	if (args->count == 0)
		jinja_fail(j, JINJA_RUNTIME, "at least one item has to be provided");
	for (size_t i = 0; i < args->count; i++)
		jinja_append(j, items, args->at[i]);
	c->items = items;
	return JINJA_VALUE(CYCLER, cycler, c);
}

static struct jinja_value
global_joiner(struct jinja *j, const struct jinja_args *args)
{
	static const char *const names[] = {"sep"};
	struct jinja_joiner *joiner = jinja_alloc(j, sizeof(*joiner));

	jinja_bind(j, "joiner", args, names, 1, 0, &joiner->separator);
	if (joiner->separator.type == JINJA_MISSING)
		joiner->separator = jinja_string(", ", 2);
	return JINJA_VALUE(JOINER, joiner, joiner);
}

static struct jinja_value
global_lipsum(struct jinja *j, const struct jinja_args *args)
{
	(void)args;
	jinja_fail(j, JINJA_RUNTIME, "lipsum() is not supported");
}

static struct jinja_value
global_raise(struct jinja *j, const struct jinja_args *args)
{
	static const char *const names[] = {"message"};
	struct jinja_value v;

	jinja_bind(j, "raise_exception", args, names, 1, 1, &v);
	v = jinja_to_str(j, v);
	jinja_fail(j, JINJA_RAISED, "%.*s", v.len > 2000 ? 2000 : (int)v.len, v.text);
}

/* datetime.now().strftime(): %f is Python's own, and a time without a zone has none to name. */
static struct jinja_value
global_strftime(struct jinja *j, const struct jinja_args *args)
{
	static const char *const names[] = {"format"};
	struct jinja_value format;
	char text[600], out[2000];
	size_t n = 0;

	jinja_bind(j, "strftime_now", args, names, 1, 1, &format);
	format = jinja_arg_string(j, format, NULL);
	if (format.len > 256)
		jinja_fail(j, JINJA_RUNTIME, "strftime_now(): the format is too long");
	for (size_t i = 0; i < format.len; i++) {
		char next = format.text[i] == '%' && i + 1 < format.len ? format.text[i + 1] : 0;

		if (next == 'f' || next == 'z' || next == 'Z') {
			n += (size_t)snprintf(text + n, sizeof(text) - n,
			    next == 'f' ? "%06u" : "%.0u", next == 'f' ? j->now_microsecond : 0);
			i++;
		} else if (next != 0) {
			text[n++] = '%';
			text[n++] = next;
			i++;
		} else if (format.text[i] == '\0') {
			jinja_fail(j, JINJA_RUNTIME, "embedded null character");
		} else {
			text[n++] = format.text[i];
		}
		if (n > sizeof(text) - 16)
			jinja_fail(j, JINJA_RUNTIME, "strftime_now(): the format is too long");
	}
	text[n] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	n = strftime(out, sizeof(out), text, &j->now);
#pragma GCC diagnostic pop
	return jinja_string_copy(j, out, n);
}

static const struct jinja_builtin globals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"lipsum", global_lipsum},
    {"raise_exception", global_raise},
    {"strftime_now", global_strftime},
};

void
jinja_globals_add(struct jinja *j, struct jinja_dict *context)
{
	for (size_t i = 0; i < sizeof(globals) / sizeof(*globals); i++)
		jinja_dict_set_text(
		    j, context, globals[i].name, JINJA_VALUE(FUNCTION, function, &globals[i]));
}
