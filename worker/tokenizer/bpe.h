/*
 * Byte pair encoding: a word's characters become symbols, then the pair with the lowest rank (the
 * leftmost of equals) is merged until no pair has a rank. Source: Sennrich et al. 2016,
 * https://arxiv.org/abs/1508.07909; the details (unknown characters, byte fallback) follow HF
 * tokenizers' models/bpe. Short words are merged by scanning, long ones with a heap: n log n, so a
 * megabyte without a break is one word like any other.
 */
#ifndef WORKER_TOKENIZER_BPE_H
#define WORKER_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/tokenizer/vocab.h"

struct bpe {
	struct vocab vocab;
	struct bpe_pair {
		uint32_t left, right;
	} * merges; /* [merge_count] in order of rank */
	size_t merge_count;
	struct bpe_slot {
		uint32_t left, right; /* UINT32_MAX: free */
		uint32_t rank, id;    /* of what the pair becomes */
	} * slots;		      /* [mask + 1] */
	size_t mask;
	int32_t unknown; /* id, or -1 */
	bool fuse_unknown, byte_fallback, ignore_merges;
	char *prefix, *suffix;	  /* continuing_subword_prefix, end_of_word_suffix; NULL: none */
	int32_t glyph_id[256];	  /* the token of each byte's glyph, or -1 */
	int32_t fallback_id[256]; /* "<0x00>" ... "<0xFF>", or -1 */
};

enum { BPE_BATCH = 16 };

/* A merge as it is written, in views. */
struct bpe_merge {
	const char *left, *right;
	size_t left_len, right_len;
};

struct bpe_symbol {
	uint32_t id;
	uint32_t length; /* bytes of the word; 0 once it was merged into its left neighbour */
};

/* Working memory of one caller: zeroed before the first word, freed with bpe_scratch_fini. */
struct bpe_scratch {
	struct bpe_symbol *symbols;
	size_t count, size; /* the last word's tokens */
	uint32_t *rank;	    /* of the pair (i, next i); UINT32_MAX: none */
	uint32_t *next, *previous;
	size_t link_size[3];
	uint64_t *heap; /* rank << 32 | symbol */
	size_t heap_count, heap_size;
	char *text; /* a word being spelled */
	size_t text_size;
};

/* Makes the table for merge_count merges, which bpe_add_merge then fills. 0 or -ENOMEM. */
int bpe_reserve_merges(struct bpe *b, size_t merge_count);
/* Adds the next ranks' merges, at most BPE_BATCH of them: loading waits for memory more than for
   anything else, and look-ups that wait together are several times faster. A pair that is there
   already gets the new rank. Returns how many were added: all, or those before the first whose
   left, right or joined text is no token. */
size_t bpe_add_merges(struct bpe *b, const struct bpe_merge *merges, size_t count);
/* Looks up the glyphs' and the fallback tokens' ids, once the vocabulary is whole. */
void bpe_find_bytes(struct bpe *b);
void bpe_fini(struct bpe *b);

/* true if raw bytes can be encoded without spelling them in glyphs first: every byte that UTF-8
   has is a token, and nothing is put before or after characters. */
bool bpe_takes_bytes(const struct bpe *b);

/* Encodes a word into scratch->symbols[0..count). raw: the word is bytes that stand for their
   glyphs (needs bpe_takes_bytes), else it is text. 0 or -ENOMEM. */
int bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t len, bool raw);
void bpe_scratch_fini(struct bpe_scratch *s);

#endif
