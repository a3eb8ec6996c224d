/*
 * The vocabulary: token text to id and back. Texts lie one after the other in one block and the
 * index is one flat table, so that a quarter of a million tokens load in some milliseconds. Texts
 * are any bytes; ids may have holes.
 */
#ifndef WORKER_TOKENIZER_VOCAB_H
#define WORKER_TOKENIZER_VOCAB_H

#include <stddef.h>
#include <stdint.h>

enum { VOCAB_MAX_ID = 1 << 22 };

struct vocab {
	char *text; /* all tokens */
	size_t text_len, text_size;
	struct vocab_entry {
		uint32_t offset; /* of the id's text */
		uint32_t length; /* UINT32_MAX: no token has this id */
	} * entries;		 /* [size] */
	size_t size;		 /* highest id + 1 */
	size_t count;		 /* tokens */
	struct vocab_slot {
		uint32_t id_plus_1; /* 0: free */
		uint32_t hash;
	} * slots; /* [mask + 1] */
	size_t mask;
};

/* Room for ids below size and for `bytes` of text, all of it known beforehand. 0 or -ENOMEM. */
int vocab_init(struct vocab *v, size_t size, size_t bytes);
void vocab_fini(struct vocab *v);
/* 0; -EEXIST if the text is there; -EBUSY if the id is taken. id < size, text fits; hash is what
   vocab_seek gave for the text, some additions ago at best: memory has the slot ready then. */
int vocab_add(struct vocab *v, uint64_t hash, uint32_t id, const char *text, size_t len);
/* The id, or -1. */
int32_t vocab_find(const struct vocab *v, const char *text, size_t len);
/* The same in steps, so that many look-ups wait for memory together: vocab_seek hashes and asks for
   the slot, vocab_approach asks for what the slot leads to, vocab_found does the rest. */
uint64_t vocab_seek(const struct vocab *v, const char *text, size_t len);
void vocab_approach(const struct vocab *v, uint64_t hash);
int32_t vocab_found(const struct vocab *v, uint64_t hash, const char *text, size_t len);
/* A view of the token's text, NULL if no token has the id. */
const char *vocab_text(const struct vocab *v, int64_t id, size_t *len);

/* A keyed hash of bytes: nobody can write a vocabulary whose tokens collide. */
uint64_t hash_bytes(const char *data, size_t len);
/* The same for one number. */
uint64_t hash_number(uint64_t value);

#endif
