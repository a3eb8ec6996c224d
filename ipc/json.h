/*
 * JSON reading: a strict RFC 8259 parser that keeps the text of numbers and the order of members,
 * for bytes that nobody vouches for. One parse makes a document; values are small handles into it
 * and stay valid until json_free. Beside the RFC it takes what Python's json takes: a UTF-8 byte
 * order mark and the literals NaN, Infinity and -Infinity (told by json_doc_flags).
 */
#ifndef IPC_JSON_H
#define IPC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

enum { JSON_MAX_DEPTH = 64 };

/* What a strict service refuses although a parser can read it. */
enum json_flag {
	JSON_HAS_NUL = 1,	/* a string or key holds U+0000 */
	JSON_HAS_SURROGATE = 2, /* an escape names a lone surrogate (kept as its three bytes) */
	JSON_HAS_NONFINITE = 4, /* NaN, Infinity or -Infinity */
};

enum json_fault {
	JSON_FAULT_SYNTAX,
	JSON_FAULT_UTF8,
	JSON_FAULT_DEPTH,
	JSON_FAULT_SIZE,
	JSON_FAULT_MEMORY
};

struct json_error {
	enum json_fault fault;
	size_t offset;	  /* in characters (code points), as Python reports it */
	size_t byte;	  /* the same place in bytes */
	const char *what; /* a constant: "Expecting value", ... */
};

struct json_doc;

/* A value in a document, or none (doc NULL). Passed by value. */
struct json {
	const struct json_doc *doc;
	uint32_t at;
};

/* Parses len bytes of text (copied: the caller keeps text). 0, -EINVAL with *err filled (err may be
   NULL), or -ENOMEM. On failure *out is NULL. */
int json_parse(struct json_doc **out, const void *text, size_t len, struct json_error *err);
/* Frees the document and every view into it; NULL is allowed. */
void json_free(struct json_doc *doc);
struct json json_root(const struct json_doc *doc);
/* Bits of enum json_flag that hold anywhere in the document. */
unsigned json_doc_flags(const struct json_doc *doc);

bool json_exists(struct json v);
/* The type; of no value: JSON_NULL. */
enum json_type json_type(struct json v);
bool json_is(struct json v, enum json_type type);
/* Elements of an array or members of an object, else 0. */
size_t json_count(struct json v);
/* First element or member value, and the one after v in the same container; none at the end. */
struct json json_first(struct json v);
struct json json_next(struct json v);
#define json_foreach(item, container)                                                              \
	for (struct json item = json_first(container); json_exists(item); item = json_next(item))
/* The key of a member value reached by json_first, json_next or json_get, NUL-terminated, decoded,
   else NULL. len may be NULL. */
const char *json_key(struct json member, size_t *len);
/* The member with that key, the last one where there are several; none if absent or no object. */
struct json json_get(struct json object, const char *key);
/* A string's decoded UTF-8, NUL-terminated; NULL if v is no string. len may be NULL. */
const char *json_string(struct json v, size_t *len);
/* The digits of a number as written; NULL if v is no number. NUL-terminated. */
const char *json_number(struct json v, size_t *len);
bool json_true(struct json v);
/* true if v is a number written as an integer that fits; *out is set. */
bool json_int64(struct json v, int64_t *out);
/* true if v is a number (overflow gives infinity); *out is set. */
bool json_double(struct json v, double *out);
/* true if a and b are the same string. */
bool json_string_is(struct json v, const char *text);

#endif
