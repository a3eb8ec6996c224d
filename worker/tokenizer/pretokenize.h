/*
 * Pre-tokenizers: cut the text between added tokens into words, each of which the model encodes
 * alone, and rewrite them where the kind asks for it.
 */
#ifndef WORKER_TOKENIZER_PRETOKENIZE_H
#define WORKER_TOKENIZER_PRETOKENIZE_H

#include "worker/tokenizer/pieces.h"
#include "worker/tokenizer/step.h"

/* GPT-2's pattern, which ByteLevel cuts with. */
extern const char pretokenize_gpt2_pattern[];

/* Runs the pre-tokenizers over all pieces that are no tokens. raw_bytes: a ByteLevel that comes
   last leaves its words as they are, for a model that takes bytes. 0, or -1 with *r filled. */
int pretokenize(const struct steps *steps, struct pieces *p, bool raw_bytes, struct refusal *r);

#endif
