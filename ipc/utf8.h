/*
 * UTF-8 by the Unicode standard, table 3-7: no overlong forms, no surrogates, nothing over
 * U+10FFFF.
 */
#ifndef IPC_UTF8_H
#define IPC_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* How many leading bytes of text are well-formed UTF-8: len if all are. */
size_t utf8_valid_prefix(const void *text, size_t len);
/* Decodes one code point at text (len > 0 bytes left): its length in bytes, 1 to 4, with *point
   set; 0 if it is ill-formed. */
size_t utf8_get(const char *text, size_t len, uint32_t *point);
/* Writes a code point's 1 to 4 bytes to out (surrogates as their three bytes); returns how many. */
size_t utf8_put(char *out, uint32_t point);
/* Code points in well-formed text. */
size_t utf8_count(const void *text, size_t len);

#endif
