#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_repr.h"
#include "worker/jinja/jinja_unicode.h"

/* Filters that look at a whole sequence. Each is do_<name> of Jinja's filters.py. */

#define FILTER(name)                                                                               \
	static struct jinja_value name(                                                            \
	    struct jinja *j, struct jinja_value v, const struct jinja_args *args)

FILTER(length)
{
	int64_t n = jinja_length(j, v);

	jinja_bind(j, "length", args, NULL, 0, 0, NULL);
	if (n < 0)
		jinja_fail_type(j, "object of type '%s' has no len()", v);
	return jinja_int(n);
}

FILTER(filter_default)
{
	static const char *const names[] = {"default_value", "boolean"};
	struct jinja_value a[2];

	jinja_bind(j, "default", args, names, 2, 0, a);
	if (v.type == JINJA_UNDEFINED || (jinja_arg_bool(a[1], false) && !jinja_truth(v)))
		return a[0].type == JINJA_MISSING ? jinja_string("", 0) : a[0];
	return v;
}

FILTER(join)
{
	static const char *const names[] = {"d", "attribute"};
	struct jinja_value a[2], item, by;
	const struct jinja_list *path;
	struct jinja_iterator *it;
	size_t from, count = 0;

	jinja_bind(j, "join", args, names, 2, 0, a);
	by = a[0].type == JINJA_MISSING ? jinja_string("", 0) : jinja_to_str(j, a[0]);
	path = jinja_path(j, a[1]);
	from = j->out_len;
	for (it = jinja_iterate(j, v); jinja_iterator_next(j, it, &item); count++) {
		if (count > 0)
			jinja_put(j, by.text, by.len);
		item = jinja_follow(j, item, path, (struct jinja_value){0});
		jinja_put_str(j, j->autoescape ? jinja_escape(j, item) : item);
	}
	v = jinja_capture(j, from);
	v.flags = j->autoescape ? JINJA_MARKUP : 0;
	return v;
}

FILTER(first)
{
	struct jinja_value item;

	jinja_bind(j, "first", args, NULL, 0, 0, NULL);
	if (!jinja_iterator_next(j, jinja_iterate(j, v), &item))
		return jinja_undefined_hint(j, "No first item, sequence was empty.");
	return item;
}

/* reversed() wants a sequence or a dict: a generator has no end to start from. */
static bool
is_reversible(struct jinja_value v)
{
	return jinja_is_iterable(v) && v.type != JINJA_ITERATOR && v.type != JINJA_LOOP;
}

FILTER(last)
{
	const struct jinja_list *list;

	jinja_bind(j, "last", args, NULL, 0, 0, NULL);
	if (v.type == JINJA_STRING && v.len > 0)
		return jinja_to_str(j, jinja_getitem(j, v, jinja_int(-1)));
	if (!is_reversible(v))
		jinja_fail_type(j, "'%s' object is not reversible", v);
	list = jinja_to_list(j, v);
	if (list->count == 0)
		return jinja_undefined_hint(j, "No last item, sequence was empty.");
	return list->at[list->count - 1];
}

FILTER(list)
{
	jinja_bind(j, "list", args, NULL, 0, 0, NULL);
	return JINJA_VALUE(LIST, list, jinja_to_list(j, v));
}

FILTER(reverse)
{
	struct jinja_list *out;
	const struct jinja_list *list;
	struct jinja_value none = jinja_none(), reversed;

	jinja_bind(j, "reverse", args, NULL, 0, 0, NULL);
	if (v.type == JINJA_STRING)
		return jinja_slice(j, v, none, none, jinja_int(-1));
	list = jinja_to_list(j, v);
	out = jinja_list_new(j, list->count);
	for (size_t i = list->count; i-- > 0;)
		jinja_append(j, out, list->at[i]);
	reversed = JINJA_VALUE(LIST, list, out);
	/* Of what cannot be reversed in place Jinja makes a list, else an iterator. */
	if (!is_reversible(v))
		return reversed;
	return JINJA_VALUE(ITERATOR, iterator, jinja_iterate(j, reversed));
}

static struct jinja_value
ignore_case(struct jinja *j, struct jinja_value v)
{
	return v.type == JINJA_STRING ? jinja_lower_text(j, v) : v;
}

struct key {
	const struct jinja_list *paths; /* of lists */
	bool sensitive;
	struct jinja_value otherwise;
	size_t at; /* of an item of a dict: key or value */
};

static struct jinja_value
path_key(struct jinja *j, struct jinja_value item, void *state)
{
	const struct key *k = state;

	item = jinja_follow(j, item, k->paths->at[0].list, k->otherwise);
	return k->sensitive ? item : ignore_case(j, item);
}

/* A list of keys: attribute may be "a,b.c". */
static struct jinja_value
paths_key(struct jinja *j, struct jinja_value item, void *state)
{
	const struct key *k = state;
	struct jinja_list *keys = jinja_list_new(j, k->paths->count);

	for (size_t i = 0; i < k->paths->count; i++) {
		struct jinja_value v =
		    jinja_follow(j, item, k->paths->at[i].list, (struct jinja_value){0});

		jinja_append(j, keys, k->sensitive ? v : ignore_case(j, v));
	}
	return JINJA_VALUE(LIST, list, keys);
}

static const struct jinja_list *
paths_of(struct jinja *j, struct jinja_value attribute, bool many)
{
	struct jinja_list *paths = jinja_list_new(j, 1);
	const char *s, *end, *comma;

	if (!many || attribute.type != JINJA_STRING) {
		jinja_append(j, paths, JINJA_VALUE(LIST, list, jinja_path(j, attribute)));
		return paths;
	}
	s = attribute.text;
	end = s + attribute.len;
	for (;; s = comma + 1) {
		comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
		jinja_append(j, paths,
		    JINJA_VALUE(LIST, list,
			jinja_path(j, jinja_string(s, (size_t)((comma ? comma : end) - s)))));
		if (comma == NULL)
			return paths;
	}
}

FILTER(sort)
{
	static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
	struct jinja_value a[3];
	struct key key = {0};

	jinja_bind(j, "sort", args, names, 3, 0, a);
	key.sensitive = jinja_arg_bool(a[1], false);
	key.paths = paths_of(j, a[2], true);
	return JINJA_VALUE(
	    LIST, list, jinja_sorted(j, v, paths_key, &key, jinja_arg_bool(a[0], false)));
}

static struct jinja_value
entry_key(struct jinja *j, struct jinja_value item, void *state)
{
	const struct key *k = state;

	item = item.list->at[k->at];
	return k->sensitive ? item : ignore_case(j, item);
}

FILTER(dictsort)
{
	static const char *const names[] = {"case_sensitive", "by", "reverse"};
	struct jinja_value a[3], by;
	struct key key = {0};

	jinja_bind(j, "dictsort", args, names, 3, 0, a);
	by = jinja_arg_string(j, a[1], "key");
	key.sensitive = jinja_arg_bool(a[0], false);
	key.at = jinja_string_is(by, "value");
	if (key.at == 0 && !jinja_string_is(by, "key"))
		jinja_fail(j, JINJA_RUNTIME, "You can only sort by either \"key\" or \"value\"");
	if (v.type != JINJA_DICT)
		jinja_fail_type(j, "'%s' object has no attribute 'items'", v);
	return JINJA_VALUE(LIST, list,
	    jinja_sorted(
		j, JINJA_VALUE(ITEMS, dict, v.dict), entry_key, &key, jinja_arg_bool(a[2], false)));
}

/* The first of the smallest (or largest) by the key. */
static struct jinja_value
extreme(struct jinja *j, struct jinja_value v, const struct jinja_args *args, bool largest)
{
	static const char *const names[] = {"case_sensitive", "attribute"};
	struct jinja_value a[2], item, best, best_key, k;
	struct jinja_iterator *it = jinja_iterate(j, v);
	struct key key = {0};

	jinja_bind(j, largest ? "max" : "min", args, names, 2, 0, a);
	key.sensitive = jinja_arg_bool(a[0], false);
	key.paths = paths_of(j, a[1], false);
	if (!jinja_iterator_next(j, it, &best))
		return jinja_undefined_hint(j, "No aggregated item, sequence was empty.");
	best_key = path_key(j, best, &key);
	while (jinja_iterator_next(j, it, &item)) {
		k = path_key(j, item, &key);
		if (largest ? jinja_less(j, best_key, k) : jinja_less(j, k, best_key)) {
			best = item;
			best_key = k;
		}
	}
	return best;
}

FILTER(filter_min)
{
	return extreme(j, v, args, false);
}

FILTER(filter_max)
{
	return extreme(j, v, args, true);
}

FILTER(sum)
{
	static const char *const names[] = {"attribute", "start"};
	struct jinja_value a[2], item, total;
	const struct jinja_list *path;
	struct jinja_iterator *it;

	jinja_bind(j, "sum", args, names, 2, 0, a);
	path = jinja_path(j, a[0]);
	total = a[1].type == JINJA_MISSING ? jinja_int(0) : a[1];
	if (total.type == JINJA_STRING)
		jinja_fail(j, JINJA_RUNTIME, "sum() can't sum strings [use ''.join(seq) instead]");
	it = jinja_iterate(j, v);
	while (jinja_iterator_next(j, it, &item))
		total = jinja_binary(
		    j, '+', total, jinja_follow(j, item, path, (struct jinja_value){0}));
	return total;
}

FILTER(groupby)
{
	static const char *const names[] = {"attribute", "default", "case_sensitive"};
	struct jinja_list *out = jinja_list_new(j, 4), *group = NULL, *pair;
	const struct jinja_list *sorted;
	struct jinja_value a[3], last = {0}, k, tuple;
	struct key key = {0};

	jinja_bind(j, "groupby", args, names, 3, 1, a);
	key.sensitive = jinja_arg_bool(a[2], false);
	key.paths = paths_of(j, a[0], false);
	key.otherwise = a[1];
	sorted = jinja_sorted(j, v, path_key, &key, false);
	for (size_t i = 0; i < sorted->count; i++) {
		k = path_key(j, sorted->at[i], &key);
		if (group == NULL || !jinja_equal(j, k, last)) {
			group = jinja_list_new(j, 4);
			pair = jinja_list_new(j, 2);
			/* the group is named as its first item has it */
			jinja_append(j, pair,
			    key.sensitive
				? k
				: jinja_follow(j, sorted->at[i], key.paths->at[0].list, a[1]));
			jinja_append(j, pair, JINJA_VALUE(LIST, list, group));
			tuple = JINJA_VALUE(TUPLE, list, pair);
			tuple.flags = JINJA_GROUP;
			jinja_append(j, out, tuple);
			last = k;
		}
		jinja_append(j, group, sorted->at[i]);
	}
	return JINJA_VALUE(LIST, list, out);
}

/* Attributes only: no items. */
FILTER(attr)
{
	static const char *const names[] = {"name"};
	struct jinja_value name, out;

	jinja_bind(j, "attr", args, names, 1, 1, &name);
	name = jinja_arg_string(j, name, NULL);
	if (v.type == JINJA_UNDEFINED)
		return jinja_undefined_of(j, v, name, false);
	return jinja_attribute(j, v, name, &out) ? out : jinja_undefined_of(j, v, name, false);
}

const struct jinja_filter jinja_sequence_filters[] = {
    {"length", length},
    {"count", length},
    {"default", filter_default},
    {"d", filter_default},
    {"join", join},
    {"list", list},
    {"dictsort", dictsort},
    {"first", first},
    {"last", last},
    {"min", filter_min},
    {"max", filter_max},
    {"sort", sort},
    {"reverse", reverse},
    {"sum", sum},
    {"groupby", groupby},
    {"attr", attr},
    {NULL, NULL},
};
