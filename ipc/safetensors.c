#include "ipc/safetensors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct safetensors {
	struct json_doc *doc;
	struct safetensors_tensor *tensors; /* by name */
	size_t count;
	struct json metadata;
};

/* What the header's checks pass around: where the data lies and where a complaint goes. */
struct reading {
	const unsigned char *data;
	size_t size;
	char *why;
	size_t why_size;
};

static const struct {
	const char *name;
	size_t size;
} dtypes[] = {
#define DTYPE(name, bytes) {#name, bytes},
    SAFETENSORS_DTYPES(DTYPE)
#undef DTYPE
};

__attribute__((format(printf, 2, 3))) static int
bad(const struct reading *r, const char *format, ...)
{
	va_list args;

	if (r->why_size != 0) {
		va_start(args, format);
		vsnprintf(r->why, r->why_size, format, args);
		va_end(args);
	}
	return -EBADMSG;
}

const char *
safetensors_dtype_name(enum safetensors_dtype dtype)
{
	return dtypes[dtype].name;
}

size_t
safetensors_dtype_size(enum safetensors_dtype dtype)
{
	return dtypes[dtype].size;
}

static bool
text_is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return true;
}

static int
read_dtype(const struct reading *r, struct safetensors_tensor *t, struct json value)
{
	const char *text = json_string(value, NULL);

	if (text == NULL)
		return bad(r, "the dtype of %.120s is no string", t->name);
	for (size_t i = 0; i < SAFETENSORS_DTYPE_COUNT; i++)
		if (strcmp(text, dtypes[i].name) == 0) {
			t->dtype = (enum safetensors_dtype)i;
			return 0;
		}
	return bad(r, "the dtype %.20s of %.120s is not known", text, t->name);
}

static int
read_shape(const struct reading *r, struct safetensors_tensor *t, struct json value)
{
	if (!json_is(value, JSON_ARRAY))
		return bad(r, "the shape of %.120s is no list", t->name);
	if (json_count(value) > SAFETENSORS_MAX_DIMS)
		return bad(r, "%.120s has more than %d dimensions", t->name, SAFETENSORS_MAX_DIMS);
	t->count = 1;
	json_foreach (item, value) {
		int64_t n;

		if (!json_int64(item, &n) || n < 0)
			return bad(
			    r, "the shape of %.120s holds something that is no size", t->name);
		if (__builtin_mul_overflow(t->count, (uint64_t)n, &t->count))
			return bad(r, "the shape of %.120s is too large", t->name);
		t->shape[t->dims++] = (uint64_t)n;
	}
	return 0;
}

static int
read_offsets(const struct reading *r, struct safetensors_tensor *t, struct json value)
{
	struct json first = json_first(value);
	int64_t begin, end;
	uint64_t want;

	if (!json_is(value, JSON_ARRAY) || json_count(value) != 2 || !json_int64(first, &begin) ||
	    !json_int64(json_next(first), &end))
		return bad(r, "the data_offsets of %.120s are not two integers", t->name);
	if (begin < 0 || end < begin || (uint64_t)end > r->size)
		return bad(r,
		    "the data_offsets of %.120s, %lld to %lld, are not inside the "
		    "%zu bytes of data",
		    t->name, (long long)begin, (long long)end, r->size);
	if (__builtin_mul_overflow(t->count, dtypes[t->dtype].size, &want) ||
	    want != (uint64_t)(end - begin))
		return bad(r,
		    "%.120s has %lld bytes of data, which is not what its shape and "
		    "dtype take",
		    t->name, (long long)(end - begin));
	t->data = r->data + begin;
	t->size = (size_t)want;
	return 0;
}

static int
read_tensor(const struct reading *r, struct safetensors_tensor *t, struct json entry)
{
	static const char *const keys[] = {"dtype", "shape", "data_offsets"};
	size_t len;
	int err;

	t->name = json_key(entry, &len);
	if (len == 0 || strlen(t->name) != len || !text_is_plain(t->name, len))
		return bad(r, "the name of a tensor is empty or holds control characters");
	if (!json_is(entry, JSON_OBJECT))
		return bad(r, "the entry of %.120s is no object", t->name);
	for (size_t i = 0; i < 3; i++)
		if (!json_exists(json_get(entry, keys[i])))
			return bad(r, "%.120s has no %s", t->name, keys[i]);
	if (json_count(entry) != 3)
		return bad(r, "the entry of %.120s has a key too many", t->name);
	err = read_dtype(r, t, json_get(entry, "dtype"));
	if (err == 0)
		err = read_shape(r, t, json_get(entry, "shape"));
	if (err == 0)
		err = read_offsets(r, t, json_get(entry, "data_offsets"));
	return err;
}

static int
read_metadata(const struct reading *r, struct safetensors *s, struct json value)
{
	if (json_exists(s->metadata))
		return bad(r, "there are two __metadata__");
	if (!json_is(value, JSON_OBJECT))
		return bad(r, "__metadata__ is no object");
	json_foreach (item, value) {
		size_t len, key_len;
		const char *text = json_string(item, &len);
		const char *key = json_key(item, &key_len);

		if (text == NULL)
			return bad(r, "__metadata__ holds something that is no string: %.60s", key);
		if (strlen(text) != len || strlen(key) != key_len)
			return bad(r, "__metadata__ holds a NUL character");
	}
	s->metadata = value;
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct safetensors_tensor *)a)->name,
	    ((const struct safetensors_tensor *)b)->name);
}

/* Empty tensors first where several begin at one place, so that neighbours touch. */
static int
by_place(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;

	if (x->data != y->data)
		return (const char *)x->data < (const char *)y->data ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

static int
check_places(const struct reading *r, struct safetensors *s)
{
	const unsigned char *at = r->data;

	qsort(s->tensors, s->count, sizeof(s->tensors[0]), by_place);
	for (size_t i = 0; i < s->count; i++) {
		const struct safetensors_tensor *t = &s->tensors[i];

		if ((const unsigned char *)t->data < at)
			return bad(r, "the data of %.120s overlaps another tensor's", t->name);
		if ((const unsigned char *)t->data > at)
			return bad(r, "there is a hole before the data of %.120s", t->name);
		at += t->size;
	}
	if (at != r->data + r->size)
		return bad(
		    r, "%zu bytes of data belong to no tensor", (size_t)(r->data + r->size - at));
	return 0;
}

static int
check_names(const struct reading *r, struct safetensors *s)
{
	qsort(s->tensors, s->count, sizeof(s->tensors[0]), by_name);
	for (size_t i = 1; i < s->count; i++)
		if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
			return bad(r, "the name %.120s is there twice", s->tensors[i].name);
	return 0;
}

static int
read_header(const struct reading *r, struct safetensors *s)
{
	struct json root = json_root(s->doc);
	int err;

	if (!json_is(root, JSON_OBJECT))
		return bad(r, "the header is no JSON object");
	if (json_count(root) == 0)
		return r->size == 0 ? 0 : bad(r, "the header names no tensor");
	s->tensors = calloc(json_count(root), sizeof(s->tensors[0]));
	if (s->tensors == NULL)
		return -ENOMEM;
	json_foreach (entry, root) {
		if (strcmp(json_key(entry, NULL), "__metadata__") == 0)
			err = read_metadata(r, s, entry);
		else
			err = read_tensor(r, &s->tensors[s->count++], entry);
		if (err != 0)
			return err;
	}
	err = check_places(r, s);
	return err != 0 ? err : check_names(r, s);
}

int
safetensors_open(struct safetensors **out, const void *data, size_t len, char *why, size_t why_size)
{
	const unsigned char *bytes = data;
	struct reading r = {NULL, 0, why, why_size};
	struct json_error error;
	struct safetensors *s;
	uint64_t header = 0;
	int err;

	*out = NULL;
	if (len < 8)
		return bad(
		    &r, "the file is %zu bytes long, shorter than any safetensors file", len);
	for (int i = 7; i >= 0; i--)
		header = header << 8 | bytes[i];
	if (header > len - 8)
		return bad(&r, "the header claims %llu bytes, the file has %zu",
		    (unsigned long long)header, len - 8);
	if (header > SAFETENSORS_MAX_HEADER)
		return bad(&r, "the header is longer than %d bytes", SAFETENSORS_MAX_HEADER);
	if (header == 0 || bytes[8] != '{')
		return bad(&r, "the header does not begin with {");
	r.data = bytes + 8 + header;
	r.size = len - 8 - (size_t)header;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	err = json_parse(&s->doc, bytes + 8, (size_t)header, &error);
	if (err == -EINVAL)
		err =
		    bad(&r, "the header is not valid JSON: %s at byte %zu", error.what, error.byte);
	if (err == 0)
		err = read_header(&r, s);
	if (err != 0)
		safetensors_free(s);
	else
		*out = s;
	return err;
}

void
safetensors_free(struct safetensors *s)
{
	if (s == NULL)
		return;
	free(s->tensors);
	json_free(s->doc);
	free(s);
}

size_t
safetensors_count(const struct safetensors *s)
{
	return s->count;
}

const struct safetensors_tensor *
safetensors_at(const struct safetensors *s, size_t index)
{
	return index < s->count ? &s->tensors[index] : NULL;
}

const struct safetensors_tensor *
safetensors_find(const struct safetensors *s, const char *name)
{
	struct safetensors_tensor key = {.name = name};

	if (s->count == 0)
		return NULL;
	return bsearch(&key, s->tensors, s->count, sizeof(s->tensors[0]), by_name);
}

const char *
safetensors_metadata(const struct safetensors *s, const char *key)
{
	return json_string(json_get(s->metadata, key), NULL);
}

struct json
safetensors_metadata_object(const struct safetensors *s)
{
	return s->metadata;
}

/* Not finite = the exponent is all ones, whatever the width. Little-endian, as the format is. */
static inline uint64_t
first_with_bits(const unsigned char *p, uint64_t count, size_t size, uint64_t mask)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t bits = 0;

		memcpy(&bits, p + size * i, size);
		if ((bits & mask) == mask)
			return i;
	}
	return count;
}

uint64_t
safetensors_first_nonfinite(const struct safetensors_tensor *t)
{
	switch (t->dtype) {
	case SAFETENSORS_F32:
		return first_with_bits(t->data, t->count, 4, 0x7f800000u);
	case SAFETENSORS_F16:
		return first_with_bits(t->data, t->count, 2, 0x7c00u);
	case SAFETENSORS_BF16:
		return first_with_bits(t->data, t->count, 2, 0x7f80u);
	case SAFETENSORS_F64:
		return first_with_bits(t->data, t->count, 8, 0x7ff0000000000000u);
	case SAFETENSORS_F8_E4M3: /* no infinities; NaN is all ones below the sign */
		return first_with_bits(t->data, t->count, 1, 0x7fu);
	case SAFETENSORS_F8_E5M2:
		return first_with_bits(t->data, t->count, 1, 0x7cu);
	default:
		return t->count;
	}
}
