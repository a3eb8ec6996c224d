/*
 * The classes that Oniguruma's patterns have by name (\p{...}, \s \d \w \h, [:name:]) as members
 * of a PCRE2 class. Those whose members PCRE2 defines otherwise are spelled out: White_Space (PCRE2
 * adds U+180E), \w (PCRE2 has no marks). A name that was not confirmed is refused.
 */
#ifndef WORKER_TOKENIZER_PATTERN_PROPERTY_H
#define WORKER_TOKENIZER_PATTERN_PROPERTY_H

#include "worker/text/bytes.h"

/* A pattern being read. text is well-formed UTF-8, NUL-terminated. */
struct pattern_source {
	const char *text;
	size_t len, at;
	bool caseless;
	bool in_class; /* what is being read stands in [...] */
	const char *where;
	struct refusal *refusal;
};

/* Members of \w. */
#define PATTERN_WORD_SET                                                                           \
	"\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                \
	"\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
/* Outside a class, Oniguruma asks another table about Latin-1: superscripts and fractions are \w.
 */
#define PATTERN_LONE_WORD_SET PATTERN_WORD_SET "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define PATTERN_WORD "[" PATTERN_LONE_WORD_SET "]"

/* "WHERE: the pattern has WHAT at byte N, which is not supported": returns -1. */
int pattern_refuse(const struct pattern_source *in, const char *what);

/* Members of the property or POSIX class of that name (spaces, - and _ ignored, as Unicode asks).
 */
int pattern_members_named(
    struct pattern_source *in, struct bytes *members, const char *name, size_t len);
/* The escape at in->at: 1 with its members written and *negated set if it means all others; 0 if it
   names no class, then nothing was read; -1 refused. */
int pattern_members_escape(struct pattern_source *in, struct bytes *members, bool *negated);

#endif
