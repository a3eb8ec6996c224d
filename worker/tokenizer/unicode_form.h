/*
 * Unicode normalization forms of one piece of text, with the origin of every byte kept. Characters
 * come from utf8proc; which original characters an output character stands for follows the rule of
 * HF tokenizers (the unicode-normalization-alignments crate): a decomposed character's parts share
 * its range, a composed one has its base's, and the marks that went into it belong to nobody.
 * Source of the forms: Unicode Standard Annex 15.
 */
#ifndef WORKER_TOKENIZER_UNICODE_FORM_H
#define WORKER_TOKENIZER_UNICODE_FORM_H

#include "worker/tokenizer/pieces.h"

enum unicode_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

struct unicode_scratch {
	struct unicode_part {
		uint32_t point;
		int32_t change; /* 0: stands for the next input character; 1: for the one before
				   too; -n: for the next one, and n more are dropped */
		uint8_t class;	/* canonical combining class */
	} * parts;
	size_t count, size;
};

void unicode_scratch_fini(struct unicode_scratch *s);

/* Where the first character lies that the form may change, given what is around it; end if none
   does. Text before it needs no work. */
size_t unicode_form_stable(const char *text, size_t start, size_t end, enum unicode_form form);

/* Rewrites bytes start..end of the present text in that form; inside a rewriting pass of p. */
void unicode_form_rewrite(
    struct pieces *p, struct unicode_scratch *s, size_t start, size_t end, enum unicode_form form);

#endif
