/*
 * The bounded codec of messages and stored records: little-endian fields, put and got by mirrored
 * verbs. Errors stick, so a body is written or read without a test after each field and judged once
 * at the end: wire_put_end and wire_get_end. A getter past the end, or of a length over what is
 * left, returns zero or an empty view and fails the whole.
 */
#ifndef IPC_WIRE_H
#define IPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_put {
	uint8_t *data; /* storage of the caller */
	size_t size, len;
	bool failed;
};

struct wire_get {
	const uint8_t *data; /* of the caller; views point into it */
	size_t size, at;
	bool failed;
};

void wire_put_init(struct wire_put *w, void *storage, size_t size);
void wire_put_u8(struct wire_put *w, uint8_t v);
void wire_put_u32(struct wire_put *w, uint32_t v);
void wire_put_u64(struct wire_put *w, uint64_t v);
void wire_put_i64(struct wire_put *w, int64_t v);
void wire_put_f64(struct wire_put *w, double v);		       /* the very bits */
void wire_put_bytes(struct wire_put *w, const void *data, size_t len); /* u32 length, bytes */
void wire_put_string(struct wire_put *w, const char *text);	       /* bytes and their NUL */
/* The length written, or -EMSGSIZE. */
long wire_put_end(const struct wire_put *w);

void wire_get_init(struct wire_get *r, const void *data, size_t len);
uint8_t wire_get_u8(struct wire_get *r);
uint32_t wire_get_u32(struct wire_get *r);
uint64_t wire_get_u64(struct wire_get *r);
int64_t wire_get_i64(struct wire_get *r);
double wire_get_f64(struct wire_get *r);
const void *wire_get_bytes(struct wire_get *r, size_t *len); /* a view */
const char *wire_get_string(struct wire_get *r); /* a view, NUL-terminated; "" after a failure */
bool wire_get_bool(struct wire_get *r);		 /* a u8 of 0 or 1 */
/* A string with its NUL into `size` bytes; a longer one fails the whole and leaves "". */
void wire_get_text(struct wire_get *r, char *out, size_t size);
/* Bytes that have to be `size` many; else zeros, and the whole has failed. */
void wire_get_exactly(struct wire_get *r, void *out, size_t size);
/* The first byte of a stored record: its version, 1 to `newest`. Else -EPROTO: written by a newer
   program; or -EBADMSG: no record. */
int wire_get_version(struct wire_get *r, uint8_t newest);
/* 0 if everything was there and nothing is left, else -EBADMSG. */
int wire_get_end(const struct wire_get *r);

#endif
