#include "worker/files/gguf_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"

enum {
	MAX_NAME = 255,
	MIN_TENSOR = 33, /* bytes: name of one letter, one dimension, type, offset */
	MAX_DIMS = 4,
	MAX_ALIGNMENT = 1 << 16,
};

/* Shape and type of tensor t, whose name is known; the data's offset goes to t->data until it is
 * placed. */
static int
take_tensor_shape(struct gguf_cursor *c, struct gguf_tensor *t)
{
	const struct dequant_format *format;
	uint64_t dims, size, type, offset, count = 1;

	if (gguf_take(c, 4, &dims) != 0)
		return -1;
	if (dims == 0 || dims > MAX_DIMS)
		return refuse(c->refusal, 422, "the GGUF file %s gives %s %llu dimensions",
		    c->label, t->name, (unsigned long long)dims);
	for (uint64_t i = 0; i < dims; i++) {
		if (gguf_take(c, 8, &size) != 0)
			return -1;
		if (size == 0 || size > INT64_MAX || __builtin_mul_overflow(count, size, &count) ||
		    count > INT64_MAX / 8)
			return refuse(c->refusal, 422,
			    "the GGUF file %s gives %s an impossible shape", c->label, t->name);
		if (i == 0)
			t->cols = (size_t)size;
	}
	t->rows = (size_t)(count / t->cols);
	if (gguf_take(c, 4, &type) != 0 || gguf_take(c, 8, &offset) != 0)
		return -1;
	t->type = (uint32_t)type;
	format = dequant_format(t->type);
	if (format == NULL)
		return refuse(c->refusal, 422,
		    "the GGUF file %s stores %s as %s (type %u), which is not supported", c->label,
		    t->name, dequant_type_name(t->type), t->type);
	if (t->cols % format->block != 0)
		return refuse(c->refusal, 422,
		    "the GGUF file %s gives %s rows of %zu, not a multiple of the block of %s",
		    c->label, t->name, t->cols, format->name);
	t->size = (size_t)(count / format->block * format->bytes);
	t->data = (const void *)(uintptr_t)offset;
	return 0;
}

static int
take_tensor(struct gguf_cursor *c, struct gguf_tensor *t, char **names)
{
	const char *name;
	size_t len;

	if (gguf_take_string(c, &name, &len) != 0)
		return -1;
	if (len == 0 || len > MAX_NAME)
		return refuse(c->refusal, 422,
		    "the GGUF file %s has a tensor whose name has %zu bytes", c->label, len);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
			return refuse(c->refusal, 422,
			    "the GGUF file %s has a tensor whose name holds control characters",
			    c->label);
	t->name = memcpy(*names, name, len);
	(*names)[len] = '\0';
	*names += len + 1;
	return take_tensor_shape(c, t);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int
by_offset(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct gguf_tensor *)a)->data;
	uintptr_t y = (uintptr_t)((const struct gguf_tensor *)b)->data;

	return (x > y) - (x < y);
}

/* The tensors must lie one after the other, each padded to the alignment, as writers put them. */
static int
place_tensors(
    struct gguf *g, const struct gguf_cursor *c, const unsigned char *data, uint64_t alignment)
{
	uint64_t size = (uint64_t)(c->end - data), at = 0, end = 0;

	qsort(g->tensors, g->tensor_count, sizeof(g->tensors[0]), by_offset);
	for (size_t i = 0; i < g->tensor_count; i++) {
		struct gguf_tensor *t = &g->tensors[i];
		uint64_t offset = (uintptr_t)t->data;

		if (offset != at)
			return refuse(c->refusal, 422, "the GGUF file %s puts %s at %llu, where %s",
			    c->label, t->name, (unsigned long long)offset,
			    offset < at ? "another tensor lies" : "a hole is left before it");
		if (t->size > size - offset)
			return refuse(c->refusal, 422,
			    "the GGUF file %s ends inside the data of %s", c->label, t->name);
		t->data = data + offset;
		end = offset + t->size;
		at = (end + alignment - 1) / alignment * alignment;
		if (at > size)
			at = size; /* the last one needs no padding */
	}
	if (size - end >= alignment)
		return refuse(c->refusal, 422,
		    "the GGUF file %s has %llu bytes after its last tensor", c->label,
		    (unsigned long long)(size - end));
	return 0;
}

int
gguf_read_tensors(struct gguf *g, struct gguf_cursor *c, const unsigned char *start, uint64_t count)
{
	uint64_t alignment = 32, head, left = (uint64_t)(c->end - c->at);
	uint64_t names_size = count * (MAX_NAME + 1);
	char *names;

	if (gguf_has(g, "general.alignment") && !gguf_uint(g, "general.alignment", &alignment))
		alignment = 0;
	if (alignment < 8 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
		return refuse(c->refusal, 422,
		    "general.alignment of the GGUF file %s is not a power of two from 8 to %d",
		    c->label, MAX_ALIGNMENT);
	if (count > left / MIN_TENSOR)
		return gguf_cut(c);
	g->tensors = calloc(count != 0 ? count : 1, sizeof(g->tensors[0]));
	g->names = malloc(names_size < left + count ? names_size + 1 : left + count + 1);
	if (g->tensors == NULL || g->names == NULL)
		return refuse(c->refusal, 507, "no memory for the header of %s", c->label);
	names = g->names;
	for (; g->tensor_count < count; g->tensor_count++)
		if (take_tensor(c, &g->tensors[g->tensor_count], &names) != 0)
			return -1;
	head = (uint64_t)(c->at - start);
	head = (head + alignment - 1) / alignment * alignment;
	if (count == 0)
		return 0;
	if (head > (uint64_t)(c->end - start))
		return gguf_cut(c);
	if (place_tensors(g, c, start + head, alignment) != 0)
		return -1;
	qsort(g->tensors, g->tensor_count, sizeof(g->tensors[0]), by_name);
	for (size_t i = 1; i < g->tensor_count; i++)
		if (by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
			return refuse(c->refusal, 422, "the GGUF file %s has the tensor %s twice",
			    c->label, g->tensors[i].name);
	return 0;
}
