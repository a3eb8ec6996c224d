#include <string.h>

#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_iter.h"
#include "worker/jinja/jinja_method.h"
#include "worker/jinja/jinja_ops.h"

/* Filters that are generators: nothing happens before they are drained. */

#define FILTER(name)                                                                               \
	static struct jinja_value name(                                                            \
	    struct jinja *j, struct jinja_value v, const struct jinja_args *args)

static struct jinja_args *
rest_of(struct jinja *j, const struct jinja_args *args, size_t from)
{
	struct jinja_args *rest = jinja_alloc(j, sizeof(*rest));

	*rest = *args;
	from = from < rest->count ? from : rest->count;
	rest->at += from;
	rest->count -= from;
	return rest;
}

/* An iterator over nothing, or over v, made when it is asked for the first time. */
static struct jinja_iterator *
lazily(struct jinja *j, struct jinja_iterator *it)
{
	if (it->at++ == 0)
		it->inner = jinja_iterate(j, it->source);
	return it->inner;
}

/* A generator whose source is looked at when it starts, as a Python generator's is. */
static struct jinja_value
generator(struct jinja *j, struct jinja_value v,
    bool (*next)(struct jinja *, struct jinja_iterator *, struct jinja_value *), void *state)
{
	struct jinja_value g = jinja_generator(j, jinja_string("", 0), next, state);

	g.iterator->source = v;
	return g;
}

struct mapping {
	const struct jinja_list *path; /* NULL: a filter */
	struct jinja_value otherwise, name;
	const struct jinja_filter *filter;
	const struct jinja_args *args;
};

static const struct jinja_filter *
filter_named(struct jinja *j, struct jinja_value name)
{
	const struct jinja_filter *filter =
	    name.type == JINJA_STRING ? jinja_filter_find(name) : NULL;

	if (filter == NULL)
		jinja_fail(j, JINJA_RUNTIME, "No filter named '%.*s'.",
		    name.type != JINJA_STRING ? 1
		    : name.len > 80	      ? 80
					      : (int)name.len,
		    name.type == JINJA_STRING ? name.text : "?");
	return filter;
}

static bool
next_mapped(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	struct mapping *m = it->state;

	if (!jinja_truth(it->source) || !jinja_iterator_next(j, lazily(j, it), out))
		return false;
	if (m->path != NULL) {
		*out = jinja_follow(j, *out, m->path, m->otherwise);
		return true;
	}
	if (m->filter == NULL)
		m->filter = filter_named(j, m->name);
	*out = m->filter->run(j, *out, m->args);
	return true;
}

FILTER(map)
{
	static const char *const names[] = {"attribute", "default"};
	struct mapping *m = jinja_alloc(j, sizeof(*m));
	struct jinja_value a[2] = {{0}, {0}};

	if (args->count == 0) {
		jinja_bind(j, "map", args, names, 2, 0, a);
		if (a[0].type == JINJA_MISSING)
			jinja_fail(j, JINJA_RUNTIME, "map requires a filter argument");
		m->path = jinja_path(j, a[0]);
		m->otherwise = a[1];
	} else {
		m->name = args->at[0];
		m->args = rest_of(j, args, 1);
	}
	return generator(j, v, next_mapped, m);
}

struct selection {
	const struct jinja_list *path; /* NULL: the item itself is tested */
	struct jinja_value name;       /* of the test; MISSING: its truth */
	const struct jinja_test *test; /* once it was looked for */
	const struct jinja_args *args;
	bool reject;
};

static const struct jinja_test *
test_named(struct jinja *j, struct jinja_value name)
{
	const struct jinja_test *test = name.type == JINJA_STRING ? jinja_test_find(name) : NULL;

	if (test == NULL)
		jinja_fail(j, JINJA_RUNTIME, "No test named '%.*s'.",
		    name.type != JINJA_STRING ? 1
		    : name.len > 80	      ? 80
					      : (int)name.len,
		    name.type == JINJA_STRING ? name.text : "?");
	return test;
}

static bool
next_selected(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	struct selection *s = it->state;
	struct jinja_value item;
	bool holds;

	if (!jinja_truth(it->source))
		return false;
	while (jinja_iterator_next(j, lazily(j, it), out)) {
		item = *out;
		if (s->name.type != JINJA_MISSING && s->test == NULL)
			s->test = test_named(j, s->name);
		if (s->path != NULL)
			item = jinja_follow(j, item, s->path, (struct jinja_value){0});
		holds = s->test == NULL ? jinja_truth(item) : s->test->run(j, item, s->args);
		if (holds != s->reject)
			return true;
	}
	return false;
}

static struct jinja_value
choose(struct jinja *j, struct jinja_value v, const struct jinja_args *args, bool attribute,
    bool reject)
{
	struct selection *s = jinja_alloc(j, sizeof(*s));
	size_t at = attribute;

	if (attribute && args->count == 0)
		jinja_fail(j, JINJA_RUNTIME, "Missing parameter for attribute name");
	if (attribute)
		s->path = jinja_path(j, args->at[0]);
	if (args->count > at) {
		s->name = args->at[at];
		s->args = rest_of(j, args, at + 1);
	}
	s->reject = reject;
	return generator(j, v, next_selected, s);
}

FILTER(filter_select)
{
	return choose(j, v, args, false, false);
}

FILTER(reject)
{
	return choose(j, v, args, false, true);
}

FILTER(selectattr)
{
	return choose(j, v, args, true, false);
}

FILTER(rejectattr)
{
	return choose(j, v, args, true, true);
}

struct uniqueness {
	const struct jinja_list *path;
	bool sensitive;
	struct jinja_dict *seen;
};

static bool
next_unique(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	const struct uniqueness *u = it->state;

	while (jinja_iterator_next(j, lazily(j, it), out)) {
		struct jinja_value key = jinja_follow(j, *out, u->path, (struct jinja_value){0});

		if (!u->sensitive && key.type == JINJA_STRING)
			key = jinja_lower_text(j, key);
		if (jinja_dict_get(j, u->seen, key) != NULL)
			continue;
		jinja_dict_set(j, u->seen, key, jinja_none());
		return true;
	}
	return false;
}

FILTER(unique)
{
	static const char *const names[] = {"case_sensitive", "attribute"};
	struct uniqueness *u = jinja_alloc(j, sizeof(*u));
	struct jinja_value a[2];

	jinja_bind(j, "unique", args, names, 2, 0, a);
	u->sensitive = jinja_arg_bool(a[0], false);
	u->path = jinja_path(j, a[1]);
	u->seen = jinja_dict_new(j, 8);
	return generator(j, v, next_unique, u);
}

static bool
next_item(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	if (it->source.type == JINJA_UNDEFINED)
		return false;
	if (it->source.type != JINJA_DICT)
		jinja_fail(j, JINJA_RUNTIME, "Can only get item pairs from a mapping.");
	if (it->at >= it->source.dict->count)
		return false;
	*out = jinja_dict_item(j, it->source.dict, it->at++);
	return true;
}

FILTER(items)
{
	jinja_bind(j, "items", args, NULL, 0, 0, NULL);
	return generator(j, v, next_item, NULL);
}

struct portions {
	struct jinja_value fill;
	int64_t count;
	size_t given;
	const struct jinja_list *all;
};

static bool
next_batch(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	struct portions *p = it->state;
	struct jinja_list *batch = jinja_list_new(j, 4);
	struct jinja_value item;

	while ((int64_t)batch->count < p->count && jinja_iterator_next(j, lazily(j, it), &item))
		jinja_append(j, batch, item);
	if (batch->count == 0)
		return false;
	while (p->fill.type != JINJA_NONE && p->fill.type != JINJA_MISSING &&
	       (int64_t)batch->count < p->count) {
		jinja_pay(j, 0);
		jinja_append(j, batch, p->fill);
	}
	*out = JINJA_VALUE(LIST, list, batch);
	return true;
}

FILTER(batch)
{
	static const char *const names[] = {"linecount", "fill_with"};
	struct portions *p = jinja_alloc(j, sizeof(*p));
	struct jinja_value a[2];

	jinja_bind(j, "batch", args, names, 2, 1, a);
	p->count = jinja_to_int64(j, a[0], "batch");
	if (p->count < 1)
		jinja_fail(j, JINJA_RUNTIME, "batch: a size below 1");
	p->fill = a[1];
	return generator(j, v, next_batch, p);
}

static bool
next_slice(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	struct portions *p = it->state;
	struct jinja_list *part;
	int64_t size, extra, start, count;

	if (p->all == NULL)
		p->all = jinja_to_list(j, it->source);
	if (p->count == 0)
		jinja_fail(j, JINJA_RUNTIME, "integer division or modulo by zero");
	if ((int64_t)p->given >= p->count)
		return false;
	size = (int64_t)p->all->count / p->count;
	extra = (int64_t)p->all->count % p->count;
	start = (int64_t)p->given * size + ((int64_t)p->given < extra ? (int64_t)p->given : extra);
	count = size + ((int64_t)p->given < extra);
	part = jinja_list_new(j, (size_t)count + 1);
	for (int64_t i = 0; i < count; i++)
		jinja_append(j, part, p->all->at[start + i]);
	if (p->fill.type != JINJA_NONE && p->fill.type != JINJA_MISSING &&
	    (int64_t)p->given >= extra)
		jinja_append(j, part, p->fill);
	p->given++;
	*out = JINJA_VALUE(LIST, list, part);
	return true;
}

FILTER(slice)
{
	static const char *const names[] = {"slices", "fill_with"};
	struct portions *p = jinja_alloc(j, sizeof(*p));
	struct jinja_value a[2];

	jinja_bind(j, "slice", args, names, 2, 1, a);
	p->count = jinja_to_int64(j, a[0], "slice");
	p->fill = a[1];
	return generator(j, v, next_slice, p);
}

const struct jinja_filter jinja_lazy_filters[] = {
    {"items", items},
    {"map", map},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {"select", filter_select},
    {"reject", reject},
    {"unique", unique},
    {"batch", batch},
    {"slice", slice},
    {NULL, NULL},
};
