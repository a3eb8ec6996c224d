#include "worker/text/bytes.h"

#include <stdlib.h>
#include <string.h>

bool
grow_array(void *array, size_t *size, size_t count, size_t each)
{
	void **slot = array;
	size_t want = *size + *size / 2;
	void *grown;

	if (count <= *size)
		return true;
	if (want < count)
		want = count;
	if (want < 16)
		want = 16;
	if (want > SIZE_MAX / each)
		return false;
	grown = realloc(*slot, want * each);
	if (grown == NULL)
		return false;
	*slot = grown;
	*size = want;
	return true;
}

void
bytes_fini(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){0};
}

bool
bytes_reserve(struct bytes *b, size_t more)
{
	if (b->failed || more > SIZE_MAX - b->len ||
	    !grow_array(&b->data, &b->size, b->len + more, 1))
		b->failed = true;
	return !b->failed;
}

void
bytes_put(struct bytes *b, const void *data, size_t len)
{
	if (len == 0 || !bytes_reserve(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

void
bytes_put_text(struct bytes *b, const char *text)
{
	bytes_put(b, text, strlen(text));
}

void
bytes_insert(struct bytes *b, size_t at, const void *data, size_t len)
{
	if (!bytes_reserve(b, len))
		return;
	memmove(b->data + at + len, b->data + at, b->len - at);
	memcpy(b->data + at, data, len);
	b->len += len;
}

int
refuse_memory(struct refusal *r)
{
	return refuse(r, 507, "the worker ran out of memory");
}
