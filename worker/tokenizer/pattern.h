/*
 * Patterns of a tokenizer: a regular expression as Oniguruma understands it, run by PCRE2 (with its
 * JIT where the system lets it), or a literal text. Patterns and texts come from strangers: every
 * search is bounded in steps, memory and time.
 */
#ifndef WORKER_TOKENIZER_PATTERN_H
#define WORKER_TOKENIZER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"

struct pattern;

/* source is well-formed UTF-8, NUL-terminated. literal: a plain text, not empty. `where` names it
   in refusals. 0, or -1 with *r filled. */
int pattern_compile(struct pattern **out, const char *source, size_t len, bool literal,
    const char *where, struct refusal *r);
void pattern_free(struct pattern *p);

/* What one caller needs to run patterns, and the time it may take for all of them together. */
struct pattern_run;
struct pattern_run *pattern_run_new(void); /* NULL: no memory */
void pattern_run_free(struct pattern_run *run);

/* An iteration over the matches in a text, which starts zeroed but for text and len. */
struct pattern_scan {
	const char *text; /* well-formed UTF-8; nothing before or after it is seen */
	size_t len;
	size_t at;	   /* where the next search begins */
	size_t last_end;   /* of the last match + 1; 0: there was none */
	size_t start, end; /* the match found */
};

/* The next match: 1 with start and end set; 0 at the end; -1 refused (it takes too long). An empty
   match right behind another one is skipped, as Oniguruma's find_iter does. */
int pattern_next(
    const struct pattern *p, struct pattern_run *run, struct pattern_scan *scan, struct refusal *r);

#endif
