#include "worker/jinja/jinja_iter.h"

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_unicode.h"

static bool
next_list(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	const struct jinja_list *list = it->source.list;

	(void)j;
	if (it->at >= list->count)
		return false;
	*out = list->at[it->at++];
	return true;
}

static bool
next_char(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	size_t len;

	(void)j;
	if (it->at >= it->source.len)
		return false;
	jinja_decode(it->source.text + it->at, it->source.len - it->at, &len);
	*out = jinja_string(it->source.text + it->at, len);
	it->at += len;
	return true;
}

static bool
next_entry(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	const struct jinja_dict *d = it->source.dict;

	if (it->at >= d->count)
		return false;
	if (it->source.type == JINJA_ITEMS)
		*out = jinja_dict_item(j, d, it->at);
	else if (it->source.type == JINJA_VALUES)
		*out = d->entries[it->at].value;
	else
		*out = d->entries[it->at].key;
	it->at++;
	return true;
}

static bool
next_number(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	const struct jinja_range *r = it->source.range;

	(void)j;
	if (it->at >= r->count)
		return false;
	*out = jinja_int(r->start + (int64_t)it->at++ * r->step);
	return true;
}

static bool
next_nothing(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	(void)j;
	(void)it;
	(void)out;
	return false;
}

static bool
next_in_loop(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	struct jinja_value item;

	if (!jinja_loop_next(j, it->source.loop, &item))
		return false;
	struct jinja_list *pair = jinja_list_new(j, 2);

	jinja_append(j, pair, item);
	jinja_append(j, pair, it->source);
	*out = JINJA_VALUE(TUPLE, list, pair);
	return true;
}

bool
jinja_is_iterable(struct jinja_value v)
{
	switch (v.type) {
	case JINJA_UNDEFINED:
	case JINJA_STRING:
	case JINJA_LIST:
	case JINJA_TUPLE:
	case JINJA_DICT:
	case JINJA_KEYS:
	case JINJA_VALUES:
	case JINJA_ITEMS:
	case JINJA_RANGE:
	case JINJA_ITERATOR:
	case JINJA_LOOP:
		return true;
	default:
		return false;
	}
}

struct jinja_iterator *
jinja_iterate(struct jinja *j, struct jinja_value v)
{
	struct jinja_iterator *it;

	if (v.type == JINJA_ITERATOR)
		return v.iterator;
	if (!jinja_is_iterable(v))
		jinja_fail_type(j, "'%s' object is not iterable", v);
	it = jinja_alloc(j, sizeof(*it));
	it->source = v;
	switch (v.type) {
	case JINJA_STRING:
		it->next = next_char;
		break;
	case JINJA_LIST:
	case JINJA_TUPLE:
		it->next = next_list;
		break;
	case JINJA_RANGE:
		it->next = next_number;
		break;
	case JINJA_UNDEFINED:
		it->next = next_nothing;
		break;
	case JINJA_LOOP:
		it->next = next_in_loop;
		break;
	default:
		it->next = next_entry;
	}
	return it;
}

bool
jinja_iterator_next(struct jinja *j, struct jinja_iterator *it, struct jinja_value *out)
{
	bool more;

	jinja_pay(j, 0);
	if (it->inner == NULL)
		return it->next(j, it, out);
	if (it->running)
		jinja_fail(j, JINJA_RUNTIME, "generator already executing");
	it->running = true;
	jinja_enter(j);
	more = it->next(j, it, out);
	jinja_leave(j);
	it->running = false;
	return more;
}

struct jinja_value
jinja_generator(struct jinja *j, struct jinja_value v,
    bool (*next)(struct jinja *, struct jinja_iterator *, struct jinja_value *), void *state)
{
	struct jinja_iterator *it = jinja_alloc(j, sizeof(*it));

	it->next = next;
	it->source = v;
	it->inner = jinja_iterate(j, v);
	it->state = state;
	return JINJA_VALUE(ITERATOR, iterator, it);
}

const struct jinja_list *
jinja_to_list(struct jinja *j, struct jinja_value v)
{
	struct jinja_iterator *it;
	struct jinja_value item;
	struct jinja_list *list;

	if (v.type == JINJA_LIST || v.type == JINJA_TUPLE)
		return v.list;
	it = jinja_iterate(j, v);
	list = jinja_list_new(j, 8);
	while (jinja_iterator_next(j, it, &item))
		jinja_append(j, list, item);
	return list;
}

struct jinja_loop *
jinja_loop_new(struct jinja *j, struct jinja_value iterable, struct jinja_iterator *it)
{
	struct jinja_loop *loop = jinja_alloc(j, sizeof(*loop));

	loop->iterator = it;
	loop->iterable = iterable;
	loop->index0 = loop->length = -1;
	return loop;
}

bool
jinja_loop_next(struct jinja *j, struct jinja_loop *loop, struct jinja_value *out)
{
	if (loop->has_after) {
		if (loop->after.type == JINJA_MISSING)
			return false;
		*out = loop->after;
		loop->has_after = false;
	} else if (!jinja_iterator_next(j, loop->iterator, out)) {
		return false;
	}
	loop->index0++;
	loop->before = loop->current;
	loop->current = *out;
	return true;
}

/* The next item, or MISSING. */
static struct jinja_value
peek(struct jinja *j, struct jinja_loop *loop)
{
	if (!loop->has_after || loop->after.type == JINJA_MISSING) {
		loop->has_after = true;
		if (!jinja_iterator_next(j, loop->iterator, &loop->after))
			loop->after = (struct jinja_value){0};
	}
	return loop->after;
}

int64_t
jinja_loop_length(struct jinja *j, struct jinja_loop *loop)
{
	struct jinja_value v = loop->iterable;
	const struct jinja_list *rest;

	if (loop->length >= 0)
		return loop->length;
	switch (v.type) {
	case JINJA_LIST:
	case JINJA_TUPLE:
		return loop->length = (int64_t)v.list->count;
	case JINJA_DICT:
	case JINJA_KEYS:
	case JINJA_VALUES:
	case JINJA_ITEMS:
		return loop->length = (int64_t)v.dict->count;
	case JINJA_RANGE:
		return loop->length = (int64_t)v.range->count;
	case JINJA_STRING:
		jinja_pay(j, v.len);
		return loop->length = (int64_t)jinja_chars(v.text, v.len);
	default:
		rest = jinja_to_list(j, JINJA_VALUE(ITERATOR, iterator, loop->iterator));
		loop->iterator = jinja_iterate(j, JINJA_VALUE(LIST, list, rest));
		return loop->length = (int64_t)rest->count + loop->index0 + 1 +
				      (loop->has_after && loop->after.type != JINJA_MISSING);
	}
}

bool
jinja_loop_attribute(
    struct jinja *j, struct jinja_loop *loop, struct jinja_value name, struct jinja_value *out)
{
	if (jinja_string_is(name, "index"))
		*out = jinja_int(loop->index0 + 1);
	else if (jinja_string_is(name, "index0"))
		*out = jinja_int(loop->index0);
	else if (jinja_string_is(name, "first"))
		*out = jinja_bool(loop->index0 == 0);
	else if (jinja_string_is(name, "last"))
		*out = jinja_bool(peek(j, loop).type == JINJA_MISSING);
	else if (jinja_string_is(name, "length"))
		*out = jinja_int(jinja_loop_length(j, loop));
	else if (jinja_string_is(name, "revindex"))
		*out = jinja_int(jinja_loop_length(j, loop) - loop->index0);
	else if (jinja_string_is(name, "revindex0"))
		*out = jinja_int(jinja_loop_length(j, loop) - loop->index0 - 1);
	else if (jinja_string_is(name, "depth"))
		*out = jinja_int(1);
	else if (jinja_string_is(name, "depth0"))
		*out = jinja_int(0);
	else if (jinja_string_is(name, "previtem"))
		*out = loop->index0 == 0 ? jinja_undefined_hint(j, "there is no previous item")
					 : loop->before;
	else if (jinja_string_is(name, "nextitem"))
		*out = peek(j, loop).type == JINJA_MISSING
			   ? jinja_undefined_hint(j, "there is no next item")
			   : loop->after;
	else
		return false;
	return true;
}
