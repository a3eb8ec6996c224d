#include "ipc/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLACE_MAX = 16 }; /* steps of a loc; bodies are shallower */

const struct place place_body = {NULL, "body", 4, 0};

void
faults_init(struct faults *f)
{
	memset(f, 0, sizeof(*f));
	json_writer_init(&f->list);
}

void
faults_fini(struct faults *f)
{
	json_writer_fini(&f->list);
	faults_init(f);
}

/* The longest prefix of at most FAULT_KEY_MAX bytes that ends between two characters. */
static size_t
key_prefix(const char *key, size_t len)
{
	if (len <= FAULT_KEY_MAX)
		return len;
	len = FAULT_KEY_MAX;
	while (len > 0 && ((unsigned char)key[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static void
write_place(struct json_writer *w, const struct place *at)
{
	const struct place *steps[PLACE_MAX];
	size_t count = 0;

	for (; at != NULL && count < PLACE_MAX; at = at->up)
		steps[count++] = at;
	json_write_array(w);
	while (count-- > 0) {
		if (steps[count]->key == NULL)
			json_write_uint(w, steps[count]->index);
		else
			json_write_string_n(w, steps[count]->key,
			    key_prefix(steps[count]->key, steps[count]->key_len));
	}
	json_write_array_end(w);
}

void
faults_add(struct faults *f, const struct place *at, const char *type, const char *format, ...)
{
	char message[256];
	va_list args;

	f->status = 422;
	f->count++;
	if (f->count > FAULTS_MAX || f->list.len > FAULTS_SIZE_MAX - 16 * FAULT_KEY_MAX)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	json_write_object(&f->list);
	json_put_string(&f->list, "type", type);
	json_write_key(&f->list, "loc");
	write_place(&f->list, at);
	json_put_string(&f->list, "msg", message);
	json_write_object_end(&f->list);
}

void
faults_refuse(struct faults *f, unsigned status, const char *sentence)
{
	faults_fini(f);
	f->status = status;
	f->sentence = sentence;
}

bool
faults_any(const struct faults *f)
{
	return f->status != 0;
}

unsigned
faults_status(const struct faults *f)
{
	return f->status;
}

char *
faults_detail(const struct faults *f, size_t *len)
{
	struct json_writer w;
	const char *entries;
	size_t entries_len;

	json_writer_init(&w);
	if (f->sentence != NULL) {
		json_write_string(&w, f->sentence);
		return json_writer_take(&w, len);
	}
	entries = json_writer_text(&f->list, &entries_len);
	if (f->list.failed) {
		json_writer_fini(&w);
		return NULL;
	}
	json_write_array(&w);
	if (entries != NULL && entries_len > 0)
		json_write_raw(&w, entries, entries_len);
	json_write_array_end(&w);
	return json_writer_take(&w, len);
}

struct faults_mark
faults_mark(const struct faults *f)
{
	return (struct faults_mark){f->list.len, f->count, f->list.comma};
}

void
faults_rewind(struct faults *f, struct faults_mark mark)
{
	f->list.len = mark.len;
	f->list.comma = mark.comma;
	if (f->list.text != NULL)
		f->list.text[mark.len] = '\0';
	f->count = mark.count;
	if (mark.count == 0)
		f->status = 0;
}
