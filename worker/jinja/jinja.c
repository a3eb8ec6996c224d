#include "worker/jinja/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json.h"

struct jinja_chunk {
	struct jinja_chunk *next;
	size_t size;
	max_align_t data[];
};

enum { CHUNK_SIZE = 16 << 10, CHUNK_MAX = 4 << 20 };

void
jinja_init(struct jinja *j)
{
	memset(j, 0, sizeof(*j));
}

void
jinja_fini(struct jinja *j)
{
	for (struct jinja_chunk *c = j->chunks, *next; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	for (size_t i = 0; i < j->held_count; i++)
		json_free(j->held[i]);
	free(j->held);
	free(j->out);
	memset(j, 0, sizeof(*j));
}

_Noreturn void
jinja_fail(struct jinja *j, enum jinja_error error, const char *format, ...)
{
	va_list args;

	j->error = error;
	va_start(args, format);
	vsnprintf(j->message, sizeof(j->message), format, args);
	va_end(args);
	longjmp(j->failed, 1);
}

/* Chunks double, so that a small conversation costs one malloc and a large one few. */
static void
grow_arena(struct jinja *j, size_t size)
{
	size_t want = CHUNK_SIZE;
	struct jinja_chunk *c;

	if (j->chunks != NULL)
		want = j->chunks->size >= CHUNK_MAX ? CHUNK_MAX : j->chunks->size * 2;
	if (want < size)
		want = size;
	if (want > JINJA_MEMORY_MAX || j->memory > JINJA_MEMORY_MAX - want)
		jinja_fail(j, JINJA_LIMIT, "the template needs more than %d MiB of memory",
		    JINJA_MEMORY_MAX >> 20);
	c = malloc(sizeof(*c) + want);
	if (c == NULL)
		jinja_fail(j, JINJA_LIMIT, "out of memory");
	c->next = j->chunks;
	c->size = want;
	j->chunks = c;
	j->memory += want;
	j->tip = (char *)c->data;
	j->end = j->tip + want;
}

void *
jinja_alloc(struct jinja *j, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	void *p;

	if (size > JINJA_MEMORY_MAX)
		jinja_fail(j, JINJA_LIMIT, "the template needs more than %d MiB of memory",
		    JINJA_MEMORY_MAX >> 20);
	size = (size + align - 1) / align * align;
	if (size == 0)
		size = align;
	if ((size_t)(j->end - j->tip) < size)
		grow_arena(j, size);
	p = j->tip;
	j->tip += size;
	memset(p, 0, size);
	return p;
}

void *
jinja_alloc_array(struct jinja *j, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX;
	return jinja_alloc(j, bytes);
}

void
jinja_pay(struct jinja *j, size_t bytes)
{
	j->steps += 1 + bytes / JINJA_STEP_BYTES;
	if (j->steps > JINJA_STEPS_MAX)
		jinja_fail(j, JINJA_LIMIT, "the template takes too long (more than %d steps)",
		    JINJA_STEPS_MAX);
}

void
jinja_enter(struct jinja *j)
{
	if (++j->depth > JINJA_DEPTH_MAX)
		jinja_fail(j, JINJA_LIMIT, "maximum recursion depth exceeded");
}

void
jinja_leave(struct jinja *j)
{
	j->depth--;
}

void
jinja_hold(struct jinja *j, struct json_doc *doc)
{
	if (j->held_count == j->held_size) {
		size_t size = j->held_size == 0 ? 8 : j->held_size * 2;
		struct json_doc **held = realloc(j->held, size * sizeof(struct json_doc *));

		if (held == NULL) {
			json_free(doc);
			jinja_fail(j, JINJA_LIMIT, "out of memory");
		}
		j->held = held;
		j->held_size = size;
	}
	j->held[j->held_count++] = doc;
}

void
jinja_put(struct jinja *j, const void *text, size_t len)
{
	if (len > JINJA_OUTPUT_MAX - j->out_len)
		jinja_fail(j, JINJA_LIMIT, "the template puts out more than %d MiB",
		    JINJA_OUTPUT_MAX >> 20);
	if (len > j->out_size - j->out_len) {
		size_t size = j->out_size == 0 ? 4096 : j->out_size;
		char *out;

		while (size - j->out_len < len)
			size *= 2;
		out = realloc(j->out, size);
		if (out == NULL)
			jinja_fail(j, JINJA_LIMIT, "out of memory");
		j->out = out;
		j->out_size = size;
	}
	jinja_pay(j, len);
	if (len != 0)
		memcpy(j->out + j->out_len, text, len);
	j->out_len += len;
}
