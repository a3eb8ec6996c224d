#include "worker/jinja/jinja_dict.h"

#include <math.h>
#include <string.h>

#include "worker/jinja/jinja_int.h"

enum { SMALL = 8 };

static uint64_t
mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

static uint64_t
hash_text(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u ^ len;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
	return mix(h);
}

static uint64_t
hash_value(struct jinja *j, struct jinja_value v)
{
	uint64_t h;

	switch (v.type) {
	case JINJA_STRING:
		jinja_pay(j, v.len);
		return hash_text(v.text, v.len);
	case JINJA_BOOL:
		return mix(v.boolean);
	case JINJA_INT:
		return mix((uint64_t)v.integer);
	case JINJA_FLOAT: /* equal numbers have equal hashes */
		if (v.number == floor(v.number) && fabs(v.number) < 9.2e18)
			return mix((uint64_t)(int64_t)v.number);
		return isnan(v.number) ? 0 : 1;
	case JINJA_BIG:
		return 1;
	case JINJA_TUPLE:
		jinja_enter(j);
		h = v.list->count;
		for (size_t i = 0; i < v.list->count; i++)
			h = mix(h * 31 + hash_value(j, v.list->at[i]));
		jinja_leave(j);
		return h;
	case JINJA_LIST:
	case JINJA_DICT:
		jinja_fail(j, JINJA_RUNTIME, "unhashable type: '%s'", jinja_type_name(v));
	case JINJA_NONE:
	case JINJA_UNDEFINED:
		return mix(v.type);
	default:
		return mix((uint64_t)(uintptr_t)v.macro);
	}
}

struct jinja_dict *
jinja_dict_new(struct jinja *j, size_t size)
{
	struct jinja_dict *d = jinja_alloc(j, sizeof(*d));

	d->size = size < 4 ? 4 : size;
	d->entries = jinja_alloc_array(j, d->size, sizeof(*d->entries));
	return d;
}

static bool
same_key(struct jinja *j, const struct jinja_entry *e, struct jinja_value key, uint64_t hash)
{
	if (e->hash != hash)
		return false;
	if (key.type == JINJA_STRING)
		return e->key.type == JINJA_STRING && e->key.len == key.len &&
		       memcmp(e->key.text, key.text, key.len) == 0;
	return jinja_equal(j, e->key, key);
}

/* The entry, or count. */
static size_t
find(struct jinja *j, const struct jinja_dict *d, struct jinja_value key, uint64_t hash)
{
	if (d->index == NULL) {
		for (size_t i = 0; i < d->count; i++)
			if (same_key(j, &d->entries[i], key, hash))
				return i;
		return d->count;
	}
	for (size_t slot = hash & (d->slots - 1);; slot = (slot + 1) & (d->slots - 1)) {
		if (d->index[slot] == 0)
			return d->count;
		jinja_pay(j, 0);
		if (same_key(j, &d->entries[d->index[slot] - 1], key, hash))
			return d->index[slot] - 1;
	}
}

struct jinja_value *
jinja_dict_get(struct jinja *j, const struct jinja_dict *d, struct jinja_value key)
{
	size_t i;

	if (d->index == NULL && key.type == JINJA_STRING) {
		/* The common case: `message.role`. */
		for (i = 0; i < d->count; i++) {
			const struct jinja_value *k = &d->entries[i].key;

			if (k->type == JINJA_STRING && k->len == key.len &&
			    memcmp(k->text, key.text, key.len) == 0)
				return &d->entries[i].value;
		}
		return NULL;
	}
	i = find(j, d, key, hash_value(j, key));
	return i == d->count ? NULL : &d->entries[i].value;
}

struct jinja_value *
jinja_dict_get_text(struct jinja *j, const struct jinja_dict *d, const char *key)
{
	return jinja_dict_get(j, d, jinja_string(key, strlen(key)));
}

static void
insert_slot(struct jinja_dict *d, size_t entry)
{
	size_t slot = d->entries[entry].hash & (d->slots - 1);

	while (d->index[slot] != 0)
		slot = (slot + 1) & (d->slots - 1);
	d->index[slot] = (uint32_t)entry + 1;
}

static void
grow(struct jinja *j, struct jinja_dict *d)
{
	if (d->count == d->size) {
		struct jinja_entry *entries = jinja_alloc_array(j, d->size * 2, sizeof(*entries));

		memcpy(entries, d->entries, d->count * sizeof(*entries));
		d->entries = entries;
		d->size *= 2;
	}
	if (d->count >= SMALL && d->count * 2 >= d->slots) {
		d->slots = d->slots == 0 ? SMALL * 4 : d->slots * 2;
		d->index = jinja_alloc_array(j, d->slots, sizeof(*d->index));
		jinja_pay(j, d->slots);
		for (size_t i = 0; i < d->count; i++)
			insert_slot(d, i);
	}
}

void
jinja_dict_set(
    struct jinja *j, struct jinja_dict *d, struct jinja_value key, struct jinja_value value)
{
	uint64_t hash = hash_value(j, key);
	size_t i = find(j, d, key, hash);

	if (i < d->count) {
		d->entries[i].value = value;
		return;
	}
	grow(j, d);
	d->entries[d->count++] = (struct jinja_entry){key, value, hash};
	if (d->index != NULL)
		insert_slot(d, d->count - 1);
}

void
jinja_dict_set_text(
    struct jinja *j, struct jinja_dict *d, const char *key, struct jinja_value value)
{
	jinja_dict_set(j, d, jinja_string(key, strlen(key)), value);
}

struct jinja_dict *
jinja_dict_copy(struct jinja *j, const struct jinja_dict *d)
{
	struct jinja_dict *copy = jinja_dict_new(j, d->count);

	for (size_t i = 0; i < d->count; i++)
		jinja_dict_set(j, copy, d->entries[i].key, d->entries[i].value);
	return copy;
}

struct jinja_value
jinja_dict_item(struct jinja *j, const struct jinja_dict *d, size_t at)
{
	struct jinja_list *pair = jinja_list_new(j, 2);

	jinja_append(j, pair, d->entries[at].key);
	jinja_append(j, pair, d->entries[at].value);
	return JINJA_VALUE(TUPLE, list, pair);
}
