/*
 * JSON writing into a growing buffer: begin and end containers, keys, values; commas and escapes
 * are the writer's business. Running out of memory sticks: check once, at json_writer_text.
 */
#ifndef IPC_JSON_WRITE_H
#define IPC_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"

struct json_writer {
	char *text; /* NUL-terminated */
	size_t len, size;
	bool comma;  /* the next value needs a comma before it */
	bool failed; /* an allocation failed */
};

void json_writer_init(struct json_writer *w);
/* Frees the buffer; the writer may be used again after json_writer_init. */
void json_writer_fini(struct json_writer *w);
/* The text so far, a view, or NULL if memory ran out. len may be NULL. */
const char *json_writer_text(const struct json_writer *w, size_t *len);
/* Hands the buffer over: the caller frees it. NULL if memory ran out. The writer is empty after. */
char *json_writer_take(struct json_writer *w, size_t *len);

void json_write_object(struct json_writer *w);	   /* { */
void json_write_object_end(struct json_writer *w); /* } */
void json_write_array(struct json_writer *w);	   /* [ */
void json_write_array_end(struct json_writer *w);  /* ] */
void json_write_key(struct json_writer *w, const char *key);
void json_write_key_n(struct json_writer *w, const char *key, size_t len);
/* UTF-8 in, UTF-8 out; ill-formed bytes become U+FFFD; control characters are escaped. */
void json_write_string(struct json_writer *w, const char *text);
void json_write_string_n(struct json_writer *w, const char *text, size_t len);
void json_write_int(struct json_writer *w, int64_t value);
void json_write_uint(struct json_writer *w, uint64_t value);
/* The shortest digits that read back to the same double ("1e-05", "0.1", "2.0"); not finite: null.
 */
void json_write_double(struct json_writer *w, double value);
void json_write_bool(struct json_writer *w, bool value);
void json_write_null(struct json_writer *w);
/* A ready piece of JSON, as it is. */
void json_write_raw(struct json_writer *w, const char *json, size_t len);

/* A value that was read, as it was: numbers keep their digits; NaN and infinities become null. */
void json_write_value(struct json_writer *w, struct json value);

/* key + value in one call, for objects. */
void json_put_string(struct json_writer *w, const char *key, const char *value); /* NULL: null */
void json_put_text(struct json_writer *w, const char *key, const char *value);	 /* "": null */
void json_put_int(struct json_writer *w, const char *key, int64_t value);
void json_put_uint(struct json_writer *w, const char *key, uint64_t value);
void json_put_double(struct json_writer *w, const char *key, double value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
/* Unix seconds as RFC 3339 has them, in UTC: "2026-01-31T23:59:59Z". */
void json_put_time(struct json_writer *w, const char *key, int64_t at);
void json_put_null(struct json_writer *w, const char *key);

#endif
