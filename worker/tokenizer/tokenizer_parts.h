/*
 * What a tokenizer is made of, for the files that make, run and write one.
 */
#ifndef WORKER_TOKENIZER_TOKENIZER_PARTS_H
#define WORKER_TOKENIZER_TOKENIZER_PARTS_H

#include "worker/tokenizer/added.h"
#include "worker/tokenizer/bpe.h"
#include "worker/tokenizer/step.h"
#include "worker/tokenizer/tokenizer.h"

struct tokenizer {
	struct bpe model;
	struct added added;
	struct steps normalizers, pretokenizers, posts, decoders;
	bool has_decoder;
	bool raw_bytes; /* words reach the model as bytes, not spelled in glyphs */
	size_t vocabulary;
	/* the steps as JSON, as they were read; NULL is null */
	char *normalizer_json, *pretokenizer_json, *post_json, *decoder_json;
};

/* Once vocabulary, merges, steps and added tokens are there: indexes and checks the rest. Added
   tokens must have the ids that HF tokenizers would give them. 0, or -1 with *r filled. */
int tokenizer_finish(struct tokenizer *t, struct refusal *r);

#endif
