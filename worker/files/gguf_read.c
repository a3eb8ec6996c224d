#include "worker/files/gguf_read.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_KEY = 65535, /* of the specification */
	MIN_ENTRY = 14,	 /* bytes: key of one letter, type, value of one byte */
};

const size_t gguf_type_size[GGUF_TYPES] = {[GGUF_U8] = 1,
    [GGUF_I8] = 1,
    [GGUF_U16] = 2,
    [GGUF_I16] = 2,
    [GGUF_U32] = 4,
    [GGUF_I32] = 4,
    [GGUF_F32] = 4,
    [GGUF_BOOL] = 1,
    [GGUF_U64] = 8,
    [GGUF_I64] = 8,
    [GGUF_F64] = 8};

int
gguf_cut(const struct gguf_cursor *c)
{
	return refuse(c->refusal, 422, "the GGUF file %s is cut short in its header", c->label);
}

static uint64_t
load(const unsigned char *p, size_t size)
{
	uint64_t v = 0;

	memcpy(&v, p, size); /* little-endian, as the file is */
	return v;
}

int
gguf_take(struct gguf_cursor *c, size_t size, uint64_t *out)
{
	*out = 0;
	if ((size_t)(c->end - c->at) < size)
		return gguf_cut(c);
	*out = load(c->at, size);
	c->at += size;
	return 0;
}

int
gguf_take_string(struct gguf_cursor *c, const char **text, size_t *len)
{
	uint64_t n;

	if (gguf_take(c, 8, &n) != 0)
		return -1;
	if (n > (uint64_t)(c->end - c->at))
		return gguf_cut(c);
	*text = (const char *)c->at;
	*len = (size_t)n;
	c->at += n;
	return 0;
}

static int
take_array(struct gguf_cursor *c, struct gguf_entry *e)
{
	uint64_t item;

	if (gguf_take(c, 4, &item) != 0 || gguf_take(c, 8, &e->count) != 0)
		return -1;
	if (item >= GGUF_TYPES || item == GGUF_ARRAY)
		return refuse(c->refusal, 422,
		    "the GGUF file %s has an array %.*s of elements of type %llu", c->label,
		    (int)e->key_len, e->key, (unsigned long long)item);
	e->item = (enum gguf_type)item;
	e->data = c->at;
	if (e->item != GGUF_STRING) {
		if (e->count > (uint64_t)(c->end - c->at) / gguf_type_size[e->item])
			return gguf_cut(c);
		c->at += e->count * gguf_type_size[e->item];
		return 0;
	}
	for (uint64_t i = 0; i < e->count; i++) {
		const char *text;
		size_t len;

		if (gguf_take_string(c, &text, &len) != 0)
			return -1;
	}
	return 0;
}

static int
take_entry(struct gguf_cursor *c, struct gguf_entry *e)
{
	uint64_t type;
	const char *text;
	size_t len;

	if (gguf_take_string(c, &e->key, &e->key_len) != 0)
		return -1;
	if (e->key_len == 0 || e->key_len > MAX_KEY || memchr(e->key, 0, e->key_len) != NULL)
		return refuse(c->refusal, 422,
		    "the GGUF file %s has a key that is empty, too long or holds NUL", c->label);
	if (gguf_take(c, 4, &type) != 0)
		return -1;
	if (type >= GGUF_TYPES)
		return refuse(c->refusal, 422,
		    "the GGUF file %s gives %.*s the type %llu, which does not exist", c->label,
		    (int)e->key_len, e->key, (unsigned long long)type);
	e->type = (enum gguf_type)type;
	if (e->type == GGUF_ARRAY)
		return take_array(c, e);
	if (e->type == GGUF_STRING) {
		if (gguf_take_string(c, &text, &len) != 0)
			return -1;
		e->data = (const unsigned char *)text;
		e->count = len;
		return 0;
	}
	if ((size_t)(c->end - c->at) < gguf_type_size[e->type])
		return gguf_cut(c);
	e->data = c->at;
	c->at += gguf_type_size[e->type];
	return 0;
}

static int
compare_keys(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

int
gguf_by_key(const void *a, const void *b)
{
	const struct gguf_entry *x = a, *y = b;

	return compare_keys(x->key, x->key_len, y->key, y->key_len);
}

int
gguf_read_entries(struct gguf *g, struct gguf_cursor *c, uint64_t count)
{
	if (count > (uint64_t)(c->end - c->at) / MIN_ENTRY)
		return gguf_cut(c);
	g->entries = calloc(count != 0 ? count : 1, sizeof(g->entries[0]));
	if (g->entries == NULL)
		return refuse(c->refusal, 507, "no memory for the header of %s", c->label);
	for (; g->entry_count < count; g->entry_count++)
		if (take_entry(c, &g->entries[g->entry_count]) != 0)
			return -1;
	qsort(g->entries, g->entry_count, sizeof(g->entries[0]), gguf_by_key);
	for (size_t i = 1; i < g->entry_count; i++)
		if (gguf_by_key(&g->entries[i - 1], &g->entries[i]) == 0)
			return refuse(c->refusal, 422, "the GGUF file %s has the key %.*s twice",
			    c->label, (int)g->entries[i].key_len, g->entries[i].key);
	return 0;
}
