/*
 * What a JSON document is inside; for json.c, which reads it, and json_parse.c and json_string.c,
 * which make it.
 */
#ifndef IPC_JSON_DOC_H
#define IPC_JSON_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"

struct node {
	uint32_t text; /* offset of a string's or number's text */
	uint32_t len;  /* its length; of containers the count of children */
	uint32_t next; /* next sibling, 0 = none */
	uint32_t key;  /* offset of a member's key, valid if key_len is not NO_KEY */
	uint32_t key_len;
	uint8_t type; /* enum json_type */
	bool truth;   /* of JSON_BOOL */
};

#define NO_KEY UINT32_MAX

struct json_doc {
	char *text; /* len + 1 bytes, ours */
	size_t len;
	struct node *nodes;
	uint32_t count, room;
	unsigned flags;
};

/* json_string.c: decodes the string whose opening quote is doc->text[*at], in place, and moves *at
   behind its closing quote; *offset and *len tell where it is. 0, or -EINVAL with *error. */
int json_decode_string(
    struct json_doc *doc, size_t *at, uint32_t *offset, uint32_t *len, struct json_error *error);
/* Fills *error (but its offset) and returns -EINVAL. */
int json_fail(struct json_error *error, enum json_fault fault, size_t byte, const char *what);

#endif
