/*
 * The journal of a session: a record for each optimizer step, keyed by session and step, so that a
 * worker that comes after another can be brought to the same place. A step is INTENDED before the
 * worker is asked and DONE before the client is answered; an intended step above the session's own
 * was never acknowledged. Datum ids only: no training text, no URL, no token.
 */
#ifndef SUPERVISOR_SESSION_JOURNAL_H
#define SUPERVISOR_SESSION_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

enum {
	JOURNAL_KEY_SIZE = 40, /* 32 hex digits, u64 big-endian: the order of steps */
	JOURNAL_VERSION = 1,
	JOURNAL_DIGEST = 32,
	JOURNAL_STEP_MAX = 160, /* bytes of a packed step beside its ids */
};

enum journal_stage { JOURNAL_INTENDED = 1, JOURNAL_DONE = 2 };

struct store;

struct journal_step {
	uint8_t stage; /* enum journal_stage */
	int64_t at;    /* Unix seconds, for showing */
	double learning_rate;
	const void *ids; /* as MSG_TRAIN carries them; a view */
	size_t ids_len;
	/* DONE; zero before */
	double loss, gradient_norm;
	uint64_t input_tokens, supervised_tokens;
	uint8_t response[JOURNAL_DIGEST]; /* of the bytes of the answer's body */
};

/* id: 32 hex digits. step: the session's step after it. */
void journal_key(uint8_t key[JOURNAL_KEY_SIZE], const char *id, uint64_t step);
/* Packs into storage of ids_len + JOURNAL_STEP_MAX bytes: the length, or -EMSGSIZE. */
long journal_step_put(const struct journal_step *step, void *storage, size_t size);
/* 0, -EPROTO (written by a newer version), or -EBADMSG. */
int journal_step_get(struct journal_step *step, const void *data, size_t len);

/* Reads a step that is done: 0 with views into *data, which the caller frees. Else *data is NULL:
   -ENOENT, -EPROTO, -EBADMSG (also where it is no more than intended), or -errno of the store. */
int journal_read(
    struct store *store, const char *id, uint64_t number, struct journal_step *step, void **data);

#endif
