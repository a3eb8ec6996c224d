/*
 * The character classes of Oniguruma's patterns, written for PCRE2: [...] with nested classes and
 * &&, and the escapes that name one class or one character.
 */
#ifndef WORKER_TOKENIZER_PATTERN_CLASS_H
#define WORKER_TOKENIZER_PATTERN_CLASS_H

#include "worker/tokenizer/pattern_property.h"

/* Writes a character so that it stands for itself, inside and outside a class. */
void pattern_put_point(struct bytes *out, uint32_t c);

/* The escape at in->at, if it names a class: 1 with a whole class written; 0 if it names none, then
   nothing was read; -1 refused. */
int pattern_class_escape(struct pattern_source *in, struct bytes *out);
/* The escape at in->at as one character: 0, or -1 refused. */
int pattern_point_escape(struct pattern_source *in, uint32_t *point);
/* The class whose [ is at in->at: 0, or -1 refused. */
int pattern_class(struct pattern_source *in, struct bytes *out);

#endif
