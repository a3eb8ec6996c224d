/*
 * What the store keeps of an operation, a call that is answered later: who asked for what, and the
 * answer once there is one. Packed field by field behind a version byte. Of a step its datum ids
 * and its learning rate are kept, so that it can be taken after a restart. No URL, no token; of
 * answers that may hold text (datums, generated text) the body is not here.
 */
#ifndef SUPERVISOR_API_OPERATION_RECORD_H
#define SUPERVISOR_API_OPERATION_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/session/kept_answer.h"

enum {
	OPERATION_ID_SIZE = 33, /* 32 hex digits */
	OPERATION_CALL_SIZE = 64,
	OPERATION_RECORD_VERSION = 1,
	OPERATION_BODY_MAX = 16 * 1024, /* bytes; of a larger answer the body is not kept */
	OPERATION_IDS_MAX = 256 * 1024, /* bytes; a step with more is not taken after a restart */
};

enum operation_stage { OPERATION_BEGUN = 1, OPERATION_ANSWERED = 2 };

struct operation_record {
	uint8_t stage;		/* enum operation_stage */
	uint8_t kind;		/* enum request_kind */
	uint64_t number;	/* the order in which they came */
	int64_t at;		/* Unix seconds */
	const char *call;	/* the route's pattern */
	const char *session_id; /* "" = of none */
	const char *key;
	uint8_t digest[KEPT_DIGEST]; /* of what was asked */
	/* BEGUN */
	double learning_rate; /* TRAIN */
	bool force;	      /* CLOSE */
	const void *ids;      /* TRAIN, as MSG_TRAIN carries them */
	size_t ids_len;	      /* 0: not kept */
	/* ANSWERED */
	uint32_t status;
	const char *headers; /* "Name: value\r\n"... */
	bool has_body;
	const void *body; /* JSON */
	size_t body_len;
};

/* Bytes that packing it takes, at most. */
size_t operation_record_size(const struct operation_record *record);
/* Packs into storage of that size: the length, or -EMSGSIZE. */
long operation_record_put(const struct operation_record *record, void *storage, size_t size);
/* Strings and bytes are views. 0, -EPROTO (written by a newer version), or -EBADMSG. */
int operation_record_get(struct operation_record *record, const void *data, size_t len);

#endif
