/*
 * Added tokens: texts that are found in the input before anything else is done to it, longest match
 * at the leftmost place; those that are not `normalized` in the given text, then those that are in
 * what the normalizers made of the stretches between. Source: HF tokenizers' added_vocabulary.
 */
#ifndef WORKER_TOKENIZER_ADDED_H
#define WORKER_TOKENIZER_ADDED_H

#include "worker/tokenizer/pieces.h"
#include "worker/tokenizer/step.h"

enum { ADDED_MAX_TOKENS = 1 << 17, ADDED_MAX_BYTES = 1 << 12 };

struct added_token {
	uint32_t id;
	char *text; /* as it was added */
	size_t len;
	char *match; /* what is looked for: text, or what the normalizers make of it */
	size_t match_len;
	bool single_word, lstrip, rstrip, normalized, special;
	bool special_match; /* match is the text of a special token: decoding may skip it */
};

/* A trie in one array; a node's children are a list. */
struct trie {
	struct trie_node {
		uint32_t child, sibling; /* 0: none */
		int32_t token;		 /* index of the token that ends here, or -1 */
		unsigned char byte;
	} * nodes;
	size_t count, size;
	uint32_t first[256]; /* children of the root */
};

struct added {
	struct added_token *list; /* in order of id */
	size_t count, size;
	struct trie raw, normalized;
};

/* Appends a token; text is copied. 0 or -ENOMEM. flags are set by the caller in *token. */
int added_append(struct added *a, const struct added_token *token);
/* Once all are there: sorts, normalizes and indexes them. 0, or -1 with *r filled. */
int added_finish(struct added *a, const struct steps *normalizers, struct refusal *r);
void added_fini(struct added *a);
/* The token with this id, or NULL. */
const struct added_token *added_find(const struct added *a, uint32_t id);

/* Cuts the pieces at those added tokens that are looked for before (normalized false) or after
   normalization. 0 or -ENOMEM. */
int added_cut(const struct added *a, struct pieces *p, bool normalized);

#endif
