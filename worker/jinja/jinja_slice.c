#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_ops.h"
#include "worker/jinja/jinja_unicode.h"

/* slice.indices(): the bounds as Python clips them. */
static int64_t
clip(struct jinja *j, struct jinja_value v, int64_t count, bool negative_step, int64_t otherwise)
{
	int64_t i;

	if (v.type == JINJA_NONE || v.type == JINJA_MISSING)
		return otherwise;
	if (v.type == JINJA_BIG)
		i = v.big->negative ? INT64_MIN / 2 : INT64_MAX / 2;
	else if (jinja_is_integer(v))
		i = jinja_to_int64(j, v, "a slice index");
	else
		jinja_fail_type(j, "slice indices must be integers or None, not %s", v);
	if (i < 0)
		i = i < -count ? -1 : i + count;
	if (i < 0)
		return negative_step ? -1 : 0;
	if (i >= count)
		return negative_step ? count - 1 : count;
	return i;
}

static struct jinja_value
slice_string(struct jinja *j, struct jinja_value s, int64_t start, int64_t step, int64_t n)
{
	size_t from = j->out_len, at, len;
	struct jinja_value out;

	jinja_pay(j, s.len);
	if (n <= 0) {
		out = jinja_string("", 0);
	} else if (step == 1) {
		at = jinja_char_offset(s.text, s.len, (size_t)start);
		out = jinja_string(
		    s.text + at, jinja_char_offset(s.text + at, s.len - at, (size_t)n));
	} else if (jinja_is_ascii(s.text, s.len)) {
		for (int64_t i = 0; i < n; i++)
			jinja_put(j, s.text + start + i * step, 1);
		out = jinja_capture(j, from);
	} else {
		/* The start of every character, once. */
		size_t *offsets = jinja_alloc_array(j, s.len, sizeof(*offsets)), count = 0;

		for (at = 0; at < s.len; at += len) {
			offsets[count++] = at;
			jinja_decode(s.text + at, s.len - at, &len);
		}
		for (int64_t i = 0; i < n; i++) {
			at = offsets[start + i * step];
			jinja_decode(s.text + at, s.len - at, &len);
			jinja_put(j, s.text + at, len);
		}
		out = jinja_capture(j, from);
	}
	out.flags = s.flags & JINJA_MARKUP;
	return out;
}

static struct jinja_value
slice_range(struct jinja *j, const struct jinja_range *r, int64_t start, int64_t stop, int64_t step,
    int64_t n)
{
	struct jinja_range *out = jinja_alloc(j, sizeof(*out));

	out->start = r->start + start * r->step;
	out->stop = r->start + stop * r->step;
	out->step = r->step * step;
	out->count = n > 0 ? (size_t)n : 0;
	return JINJA_VALUE(RANGE, range, out);
}

struct jinja_value
jinja_slice(struct jinja *j, struct jinja_value obj, struct jinja_value start,
    struct jinja_value stop, struct jinja_value step)
{
	int64_t count, by = 1, from, to, n;
	struct jinja_list *list;

	if (obj.type != JINJA_STRING && obj.type != JINJA_LIST && obj.type != JINJA_TUPLE &&
	    obj.type != JINJA_RANGE)
		jinja_fail_type(j, "'%s' object is not subscriptable", obj);
	if (step.type != JINJA_NONE && step.type != JINJA_MISSING)
		by = jinja_to_int64(j, step, "a slice step");
	if (by == 0)
		jinja_fail(j, JINJA_RUNTIME, "slice step cannot be zero");
	if (by > INT32_MAX || by < -INT32_MAX)
		by = by > 0 ? INT32_MAX : -INT32_MAX;
	count = jinja_length(j, obj);
	from = clip(j, start, count, by < 0, by < 0 ? count - 1 : 0);
	to = clip(j, stop, count, by < 0, by < 0 ? -1 : count);
	n = by > 0 ? (to - from + by - 1) / by : (from - to - by - 1) / -by;
	if (obj.type == JINJA_STRING)
		return slice_string(j, obj, from, by, n);
	if (obj.type == JINJA_RANGE)
		return slice_range(j, obj.range, from, to, by, n);
	list = jinja_alloc(j, sizeof(*list));
	if (by == 1) { /* a view of the same items */
		list->at = obj.list->at + (n > 0 ? from : 0);
		list->count = n > 0 ? (size_t)n : 0;
	} else {
		list = jinja_list_new(j, n > 0 ? (size_t)n : 0);
		for (int64_t i = 0; i < n; i++)
			jinja_append(j, list, obj.list->at[from + i * by]);
		jinja_pay(j, list->count * sizeof(struct jinja_value));
	}
	obj.list = list;
	obj.flags = 0;
	return obj;
}
