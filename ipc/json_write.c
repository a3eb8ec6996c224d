#include "ipc/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ipc/utf8.h"

void
json_writer_init(struct json_writer *w)
{
	*w = (struct json_writer){0};
}

void
json_writer_fini(struct json_writer *w)
{
	free(w->text);
	*w = (struct json_writer){0};
}

const char *
json_writer_text(const struct json_writer *w, size_t *len)
{
	if (len != NULL)
		*len = w->failed ? 0 : w->len;
	if (w->failed)
		return NULL;
	return w->text == NULL ? "" : w->text;
}

char *
json_writer_take(struct json_writer *w, size_t *len)
{
	char *text = NULL;

	if (!w->failed)
		text = w->text != NULL ? w->text : calloc(1, 1);
	if (len != NULL)
		*len = text == NULL ? 0 : w->len;
	if (text != w->text)
		free(w->text);
	*w = (struct json_writer){0};
	return text;
}

static void
append(struct json_writer *w, const char *text, size_t len)
{
	if (w->failed)
		return;
	if (len >= w->size - w->len) {
		size_t size = w->size < 256 ? 256 : w->size;
		char *grown;

		while (len >= size - w->len) {
			if (size > SIZE_MAX / 2) {
				w->failed = true;
				return;
			}
			size *= 2;
		}
		grown = realloc(w->text, size);
		if (grown == NULL) {
			w->failed = true;
			return;
		}
		w->text = grown;
		w->size = size;
	}
	memcpy(w->text + w->len, text, len);
	w->len += len;
	w->text[w->len] = '\0';
}

/* Before a value: the comma that separates it from the one before. */
static void
begin_value(struct json_writer *w)
{
	if (w->comma)
		append(w, ",", 1);
	w->comma = true;
}

void
json_write_raw(struct json_writer *w, const char *json, size_t len)
{
	begin_value(w);
	append(w, json, len);
}

void
json_write_object(struct json_writer *w)
{
	begin_value(w);
	append(w, "{", 1);
	w->comma = false;
}

void
json_write_object_end(struct json_writer *w)
{
	append(w, "}", 1);
	w->comma = true;
}

void
json_write_array(struct json_writer *w)
{
	begin_value(w);
	append(w, "[", 1);
	w->comma = false;
}

void
json_write_array_end(struct json_writer *w)
{
	append(w, "]", 1);
	w->comma = true;
}

static void
append_escaped(struct json_writer *w, unsigned char c)
{
	static const char names[] = "\b\f\n\r\t\"\\";
	static const char escapes[] = "bfnrt\"\\";
	const char *found = c == 0 ? NULL : strchr(names, c);
	char text[8];

	if (found != NULL)
		snprintf(text, sizeof(text), "\\%c", escapes[found - names]);
	else
		snprintf(text, sizeof(text), "\\u%04x", c);
	append(w, text, strlen(text));
}

static void
append_string(struct json_writer *w, const char *s, size_t len)
{
	size_t at = 0, plain = 0; /* s[plain..at) waits to be appended as it is */

	append(w, "\"", 1);
	while (at < len) {
		unsigned char c = (unsigned char)s[at];
		uint32_t point;
		size_t n = utf8_get(s + at, len - at, &point);

		if (n > 0 && c >= 0x20 && c != '"' && c != '\\') {
			at += n;
			continue;
		}
		append(w, s + plain, at - plain);
		if (n == 0)
			append(w, "\xef\xbf\xbd", 3);
		else
			append_escaped(w, c);
		plain = ++at;
	}
	append(w, s + plain, at - plain);
	append(w, "\"", 1);
}

void
json_write_key_n(struct json_writer *w, const char *key, size_t len)
{
	begin_value(w);
	append_string(w, key, len);
	append(w, ":", 1);
	w->comma = false;
}

void
json_write_key(struct json_writer *w, const char *key)
{
	json_write_key_n(w, key, strlen(key));
}

void
json_write_string_n(struct json_writer *w, const char *text, size_t len)
{
	begin_value(w);
	append_string(w, text, len);
}

void
json_write_string(struct json_writer *w, const char *text)
{
	json_write_string_n(w, text, strlen(text));
}

static void
write_text(struct json_writer *w, const char *text)
{
	json_write_raw(w, text, strlen(text));
}

void
json_write_int(struct json_writer *w, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	write_text(w, text);
}

void
json_write_uint(struct json_writer *w, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	write_text(w, text);
}

void
json_write_double(struct json_writer *w, double value)
{
	char text[40];

	if (!isfinite(value)) {
		json_write_null(w);
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	if (strpbrk(text, ".e") == NULL)
		strcat(text, ".0");
	write_text(w, text);
}

void
json_write_bool(struct json_writer *w, bool value)
{
	write_text(w, value ? "true" : "false");
}

void
json_write_null(struct json_writer *w)
{
	write_text(w, "null");
}

/* Recursion is bounded by JSON_MAX_DEPTH. */
void
json_write_value(struct json_writer *w, struct json value)
{
	const char *text;
	size_t len = 0;

	switch (json_type(value)) {
	case JSON_NULL:
		json_write_null(w);
		break;
	case JSON_BOOL:
		json_write_bool(w, json_true(value));
		break;
	case JSON_NUMBER:
		text = json_number(value, &len);
		if (strpbrk(text, "NI") != NULL)
			json_write_null(w);
		else
			json_write_raw(w, text, len);
		break;
	case JSON_STRING:
		text = json_string(value, &len);
		json_write_string_n(w, text, len);
		break;
	case JSON_ARRAY:
		json_write_array(w);
		json_foreach (item, value)
			json_write_value(w, item);
		json_write_array_end(w);
		break;
	case JSON_OBJECT:
		json_write_object(w);
		json_foreach (item, value) {
			const char *key = json_key(item, &len);

			json_write_key_n(w, key, len);
			json_write_value(w, item);
		}
		json_write_object_end(w);
		break;
	}
}

void
json_put_string(struct json_writer *w, const char *key, const char *value)
{
	json_write_key(w, key);
	if (value == NULL)
		json_write_null(w);
	else
		json_write_string(w, value);
}

void
json_put_text(struct json_writer *w, const char *key, const char *value)
{
	json_put_string(w, key, value[0] != '\0' ? value : NULL);
}

void
json_put_int(struct json_writer *w, const char *key, int64_t value)
{
	json_write_key(w, key);
	json_write_int(w, value);
}

void
json_put_uint(struct json_writer *w, const char *key, uint64_t value)
{
	json_write_key(w, key);
	json_write_uint(w, value);
}

void
json_put_double(struct json_writer *w, const char *key, double value)
{
	json_write_key(w, key);
	json_write_double(w, value);
}

void
json_put_bool(struct json_writer *w, const char *key, bool value)
{
	json_write_key(w, key);
	json_write_bool(w, value);
}

void
json_put_time(struct json_writer *w, const char *key, int64_t at)
{
	time_t seconds = (time_t)at;
	char text[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_put_string(w, key, text);
}

void
json_put_null(struct json_writer *w, const char *key)
{
	json_write_key(w, key);
	json_write_null(w);
}
