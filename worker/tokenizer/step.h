/*
 * One step of a tokenizer's pipeline, as tokenizer.json names it: normalizers, pre-tokenizers,
 * post-processors and decoders. Lists of steps are made by steps_json.h and run by normalize.h,
 * pretokenize.h, the tokenizer itself and decode.h. A further kind is a row here, a parser there
 * and a case where it runs.
 */
#ifndef WORKER_TOKENIZER_STEP_H
#define WORKER_TOKENIZER_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/tokenizer/pattern.h"
#include "worker/tokenizer/pieces.h"

enum step_kind {
	/* normalizers */
	NORMAL_NFC,
	NORMAL_NFD,
	NORMAL_NFKC,
	NORMAL_NFKD,
	NORMAL_LOWERCASE,
	NORMAL_REPLACE, /* pattern, text */
	NORMAL_PREPEND, /* text */
	NORMAL_BYTE_LEVEL,
	/* pre-tokenizers */
	SPLIT_PATTERN,	   /* pattern, behaviour, invert */
	SPLIT_BYTE_LEVEL,  /* prefix_space; pattern: GPT-2's, or NULL */
	SPLIT_DIGITS,	   /* individual */
	SPLIT_PUNCTUATION, /* behaviour */
	SPLIT_WHITESPACE,  /* words and runs of signs */
	SPLIT_AT_WHITESPACE,
	SPLIT_DELIMITER, /* point */
	SPLIT_METASPACE, /* text: the replacement, point; prefix_space, first_only, split */
	/* post-processors */
	POST_TRIM, /* prefix_space */
	/* decoders */
	DECODE_BYTE_LEVEL,
	DECODE_BYTE_FALLBACK,
	DECODE_FUSE,
	DECODE_REPLACE,	  /* pattern, text */
	DECODE_STRIP,	  /* point, strip_start, strip_end */
	DECODE_METASPACE, /* point, prefix_space */
	DECODE_SUFFIX,	  /* text: BPEDecoder */
};

struct step {
	enum step_kind kind;
	struct pattern *pattern;
	char *text;
	size_t text_len;
	uint32_t point; /* a character */
	enum behaviour behaviour;
	bool invert, individual, prefix_space, first_only, split;
	uint32_t strip_start, strip_end;
};

struct steps {
	struct step *list;
	size_t count, size;
};

/* Frees what the steps own. */
void steps_fini(struct steps *s);

#endif
