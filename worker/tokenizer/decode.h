/*
 * Decoders: from token texts to text. Each step turns a list of pieces of text into another one;
 * what is left is joined. Source: HF tokenizers' decoders.
 */
#ifndef WORKER_TOKENIZER_DECODE_H
#define WORKER_TOKENIZER_DECODE_H

#include "worker/text/bytes.h"
#include "worker/tokenizer/step.h"

/* The list of token texts, in one block. */
struct decoding {
	struct bytes text;
	size_t *end; /* [count] of each piece in text */
	size_t count, size;
	bool failed;
};

void decoding_add(struct decoding *d, const char *text, size_t len);
void decoding_fini(struct decoding *d);

/* Runs the decoders (NULL: there is none, which sets spaces between tokens) and appends the joined
   text to out. d is used up. 0, or -1 with *r filled. */
int decode(const struct steps *steps, struct decoding *d, struct bytes *out, struct refusal *r);

/* Appends data as UTF-8, every maximal ill-formed part as U+FFFD (Unicode 3.9, Rust's lossy rule).
 */
void decode_lossy(struct bytes *out, const char *data, size_t len);

#endif
