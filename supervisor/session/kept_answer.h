/*
 * The answer to a request that had an Idempotency-Key, kept so that the same request sent again
 * gets it again. Only answers to what was done are kept: a refusal changed nothing, so the same
 * request is judged anew.
 */
#ifndef SUPERVISOR_SESSION_KEPT_ANSWER_H
#define SUPERVISOR_SESSION_KEPT_ANSWER_H

#include <stddef.h>
#include <stdint.h>

enum {
	IDEMPOTENCY_KEY_MAX = 255, /* bytes of the header */
	KEPT_KEY_MAX = 32 + IDEMPOTENCY_KEY_MAX,
	KEPT_VERSION = 1,
	KEPT_DIGEST = 32,
	KEPT_JSON_MAX = 1024,
	KEPT_ANSWER_MAX = KEPT_JSON_MAX + 128, /* bytes, packed */
};

struct kept_answer {
	uint8_t kind;		     /* enum request_kind */
	uint8_t digest[KEPT_DIGEST]; /* of the request's body */
	uint64_t step;	  /* of the session, after it; of a signing: when, Unix seconds */
	int64_t at;	  /* kept_clock_seconds() */
	const char *json; /* a view; empty: doing it again gives the same */
	size_t json_len;
};

/* The record's key in the store: its length. id: 32 hex digits. */
size_t kept_answer_key(uint8_t out[KEPT_KEY_MAX], const char *id, const char *key);
/* Packs into storage of KEPT_ANSWER_MAX bytes: the length, or -EMSGSIZE. */
long kept_answer_put(const struct kept_answer *answer, void *storage);
/* 0, -EPROTO (written by a newer version), or -EBADMSG. */
int kept_answer_get(struct kept_answer *answer, const void *data, size_t len);

#endif
