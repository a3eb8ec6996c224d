/*
 * Normalizers: what happens to the text between added tokens before it is cut. They rewrite the
 * pieces that are still text, each one alone.
 */
#ifndef WORKER_TOKENIZER_NORMALIZE_H
#define WORKER_TOKENIZER_NORMALIZE_H

#include "worker/tokenizer/pieces.h"
#include "worker/tokenizer/step.h"

/* Runs the normalizers over all pieces that are no tokens. 0, or -1 with *r filled. */
int normalize(const struct steps *steps, struct pieces *p, struct refusal *r);

/* Appends to `out` what the normalizers make of a text alone. 0, or -1 with *r filled. */
int normalize_text(
    const struct steps *steps, const char *text, size_t len, struct bytes *out, struct refusal *r);

/* Rewrites bytes start..end of the present text in glyphs of its bytes; in a rewriting pass. */
void rewrite_in_glyphs(struct pieces *p, size_t start, size_t end);
/* Puts text before bytes start..end, sharing the first character's origin, and copies them. */
void rewrite_with_prefix(struct pieces *p, size_t start, size_t end, const char *text, size_t len);
/* Copies bytes start..end with every match of the pattern replaced by text. */
int rewrite_replaced(struct pieces *p, size_t start, size_t end, const struct pattern *pattern,
    const char *text, size_t len, struct refusal *r);

#endif
