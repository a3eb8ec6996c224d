/*
 * tokenizer.json's patterns are written for Oniguruma (Ruby's syntax, Unicode classes); this writes
 * the PCRE2 pattern that matches the same. What has no counterpart, or one whose meaning was not
 * confirmed, is refused by its name and byte. Groups do not capture, so back references go too.
 * Source: Oniguruma 6.9, doc/RE.
 */
#ifndef WORKER_TOKENIZER_PATTERN_TRANSLATE_H
#define WORKER_TOKENIZER_PATTERN_TRANSLATE_H

#include "worker/text/bytes.h"

/* Appends the translation of source to out, to be compiled with PCRE2_UTF, PCRE2_UCP and
   PCRE2_MULTILINE, newlines LF. `where` names the pattern in refusals. */
int pattern_translate(
    struct bytes *out, const char *source, size_t len, const char *where, struct refusal *r);

#endif
