#include "worker/files/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "worker/files/gguf_read.h"
#include "worker/files/gguf_tensors.h"

enum { MAX_KEYS = 1 << 16, MAX_TENSORS = 1 << 20 };

static int
read_file(struct gguf *g, struct gguf_cursor *c, const unsigned char *start)
{
	uint64_t magic, version, tensors, keys;

	if (gguf_take(c, 4, &magic) != 0)
		return -1;
	if (magic != 0x46554747) /* "GGUF" */
		return refuse(c->refusal, 422, "%s is not a GGUF file", c->label);
	if (gguf_take(c, 4, &version) != 0)
		return -1;
	if (version != 2 && version != 3)
		return refuse(c->refusal, 422,
		    "the GGUF file %s has version %llu%s; 2 and 3 are "
		    "supported",
		    c->label, (unsigned long long)version,
		    (version & 0xffff) == 0 ? " (big-endian)" : "");
	if (gguf_take(c, 8, &tensors) != 0 || gguf_take(c, 8, &keys) != 0)
		return -1;
	if (tensors > MAX_TENSORS || keys > MAX_KEYS)
		return refuse(c->refusal, 422,
		    "the GGUF file %s claims %llu tensors and %llu keys, more than %d and %d",
		    c->label, (unsigned long long)tensors, (unsigned long long)keys, MAX_TENSORS,
		    MAX_KEYS);
	if (gguf_read_entries(g, c, keys) != 0)
		return -1;
	return gguf_read_tensors(g, c, start, tensors);
}

int
gguf_open(struct gguf **out, const void *data, size_t len, const char *label, struct refusal *r)
{
	struct gguf_cursor c = {data, (const unsigned char *)data + len, label, r};
	struct gguf *g = calloc(1, sizeof(*g));

	*out = NULL;
	if (g == NULL)
		return refuse(r, 507, "no memory for the header of %s", label);
	if (read_file(g, &c, data) != 0) {
		gguf_free(g);
		return -1;
	}
	*out = g;
	return 0;
}

void
gguf_free(struct gguf *g)
{
	if (g == NULL)
		return;
	free(g->entries);
	free(g->tensors);
	free(g->names);
	free(g);
}

static const struct gguf_entry *
find(const struct gguf *g, const char *key)
{
	struct gguf_entry want = {.key = key, .key_len = strlen(key)};

	if (g->entry_count == 0)
		return NULL;
	return bsearch(&want, g->entries, g->entry_count, sizeof(g->entries[0]), gguf_by_key);
}

bool
gguf_has(const struct gguf *g, const char *key)
{
	return find(g, key) != NULL;
}

bool
gguf_key_at(const struct gguf *g, size_t index, const char **key, size_t *len)
{
	if (index >= g->entry_count)
		return false;
	*key = g->entries[index].key;
	*len = g->entries[index].key_len;
	return true;
}

bool
gguf_string(const struct gguf *g, const char *key, const char **text, size_t *len)
{
	const struct gguf_entry *e = find(g, key);

	if (e == NULL || e->type != GGUF_STRING)
		return false;
	*text = (const char *)e->data;
	*len = (size_t)e->count;
	return true;
}

bool
gguf_string_is(const struct gguf *g, const char *key, const char *text)
{
	const char *value;
	size_t len;

	return gguf_string(g, key, &value, &len) && len == strlen(text) &&
	       memcmp(value, text, len) == 0;
}

static bool
is_int(enum gguf_type type)
{
	return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_STRING && type != GGUF_ARRAY;
}

/* An integer of any width; a u64 beyond int64 becomes negative, so that uint refuses it. */
static int64_t
int_at(enum gguf_type type, const unsigned char *p)
{
	uint64_t v = 0;

	memcpy(&v, p, gguf_type_size[type]); /* little-endian, as the file is */
	switch (type) {
	case GGUF_I8:
		return (int8_t)v;
	case GGUF_I16:
		return (int16_t)v;
	case GGUF_I32:
		return (int32_t)v;
	default:
		return (int64_t)v;
	}
}

static double
float_at(enum gguf_type type, const unsigned char *p)
{
	double wide;
	float narrow;

	if (type == GGUF_F64) {
		memcpy(&wide, p, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, p, sizeof(narrow));
	return narrow;
}

bool
gguf_uint(const struct gguf *g, const char *key, uint64_t *out)
{
	const struct gguf_entry *e = find(g, key);
	int64_t v;

	if (e == NULL || !is_int(e->type) || e->type == GGUF_BOOL)
		return false;
	v = int_at(e->type, e->data);
	if (v < 0)
		return false;
	*out = (uint64_t)v;
	return true;
}

bool
gguf_float(const struct gguf *g, const char *key, double *out)
{
	const struct gguf_entry *e = find(g, key);

	if (e != NULL && (e->type == GGUF_F32 || e->type == GGUF_F64))
		*out = float_at(e->type, e->data);
	else if (e != NULL && is_int(e->type) && e->type != GGUF_BOOL)
		*out = (double)int_at(e->type, e->data);
	else
		return false;
	return true;
}

bool
gguf_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_entry *e = find(g, key);

	if (e == NULL || e->type != GGUF_BOOL)
		return false;
	*out = *e->data != 0;
	return true;
}

static const struct gguf_entry *
array(const struct gguf *g, const char *key, struct gguf_array *out)
{
	const struct gguf_entry *e = find(g, key);

	if (e == NULL || e->type != GGUF_ARRAY)
		return NULL;
	*out = (struct gguf_array){e->item, (size_t)e->count, e->data, (size_t)e->count};
	return e;
}

bool
gguf_strings(const struct gguf *g, const char *key, struct gguf_array *out)
{
	struct gguf_array a;

	if (array(g, key, &a) == NULL || a.type != GGUF_STRING)
		return false;
	*out = a;
	return true;
}

bool
gguf_ints(const struct gguf *g, const char *key, struct gguf_array *out)
{
	struct gguf_array a;

	if (array(g, key, &a) == NULL || !is_int(a.type))
		return false;
	*out = a;
	return true;
}

bool
gguf_next_string(struct gguf_array *a, const char **text, size_t *len)
{
	uint64_t n;

	if (a->left == 0)
		return false;
	memcpy(&n, a->next, sizeof(n));
	*text = (const char *)a->next + sizeof(n);
	*len = (size_t)n;
	a->next += sizeof(n) + n;
	a->left--;
	return true;
}

bool
gguf_next_int(struct gguf_array *a, int64_t *out)
{
	if (a->left == 0)
		return false;
	*out = int_at(a->type, a->next);
	a->next += gguf_type_size[a->type];
	a->left--;
	return true;
}

size_t
gguf_tensor_count(const struct gguf *g)
{
	return g->tensor_count;
}

const struct gguf_tensor *
gguf_tensor_at(const struct gguf *g, size_t index)
{
	return index < g->tensor_count ? &g->tensors[index] : NULL;
}

static int
name_order(const void *key, const void *tensor)
{
	return strcmp(key, ((const struct gguf_tensor *)tensor)->name);
}

const struct gguf_tensor *
gguf_tensor(const struct gguf *g, const char *name)
{
	if (g->tensor_count == 0)
		return NULL;
	return bsearch(name, g->tensors, g->tensor_count, sizeof(g->tensors[0]), name_order);
}
