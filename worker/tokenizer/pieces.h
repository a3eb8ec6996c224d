/*
 * A text on its way to tokens: cut into pieces, each of which is a token already or still text, and
 * rewritten by normalizers and pre-tokenizers, while every byte remembers the range of the original
 * text that it came from. The rules are those of HF tokenizers' PreTokenizedString and
 * NormalizedString.
 */
#ifndef WORKER_TOKENIZER_PIECES_H
#define WORKER_TOKENIZER_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/text/bytes.h"
#include "worker/tokenizer/pattern.h"

struct piece {
	uint32_t start, end; /* bytes of the present text; never empty */
	int32_t token;	     /* an added token's id, or -1: text */
};

/* What happens to a match: SplitDelimiterBehavior. */
enum behaviour {
	BEHAVIOUR_REMOVED,
	BEHAVIOUR_ISOLATED,
	BEHAVIOUR_MERGED_WITH_PREVIOUS,
	BEHAVIOUR_MERGED_WITH_NEXT,
	BEHAVIOUR_CONTIGUOUS
};

struct range {
	uint32_t from, to;
};

/* What rewriting may make of a text: so many times its length, and a little. Known tokenizers at
   most double it, in glyphs. */
enum { PIECES_GROWTH = 32, PIECES_GROWTH_FREE = 1 << 16 };

struct pieces {
	const char *original;
	size_t original_len;
	const char *text; /* original, or fresh.data once something was rewritten */
	size_t text_len;
	struct range *origin; /* [text_len] of each byte; NULL: text is the original */
	struct piece *list;
	size_t count, size;
	/* being made by the pass at work */
	struct piece *next_list;
	size_t next_count, next_size;
	struct bytes fresh, next;
	struct range *next_origin;
	size_t origin_size, next_origin_size;
	bool failed;	/* memory ran out */
	bool overgrown; /* or the text grew past PIECES_GROWTH, and failed is set too */
	struct pattern_run *run;
};

/* One piece, the whole text (len < 2 GiB, well-formed UTF-8, kept by the caller). */
int pieces_init(struct pieces *p, const char *text, size_t len);
void pieces_fini(struct pieces *p);
/* Says why a pass failed: returns -1. */
int pieces_refuse(const struct pieces *p, struct refusal *r);

/* The range of the original text that bytes start..end (not empty) came from. */
struct range pieces_origin(const struct pieces *p, size_t start, size_t end);

/* A pass that cuts: for each piece, pieces_keep it or pieces_cut parts of it, in order; then
   pieces_cut_done. Empty parts vanish. */
void pieces_keep(struct pieces *p, size_t index);
void pieces_cut(struct pieces *p, size_t start, size_t end, int32_t token);
int pieces_cut_done(struct pieces *p);

/* A pass that rewrites: for each piece, in order, pieces_rewrite_begin, then copies and puts, then
   pieces_rewrite_end; then pieces_rewrite_done. */
void pieces_rewrite_begin(struct pieces *p);
void pieces_copy(struct pieces *p, size_t start, size_t end); /* of the present text */
void pieces_put(struct pieces *p, const char *data, size_t len, struct range origin);
void pieces_rewrite_end(struct pieces *p, int32_t token);
int pieces_rewrite_done(struct pieces *p);

/* A stretch of a piece that matches, or that does not. */
struct stretch {
	uint32_t start, end;
	bool match;
};

/* Collects the stretches of one piece and cuts them by a behaviour. */
struct splitter {
	struct stretch *list;
	size_t count, size;
	bool failed;
};

void splitter_add(struct splitter *s, size_t start, size_t end, bool match);
/* Cuts the piece as the behaviour has it and empties the splitter. */
void splitter_cut(struct splitter *s, struct pieces *p, enum behaviour behaviour);
void splitter_fini(struct splitter *s);

#endif
