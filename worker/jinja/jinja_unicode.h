/*
 * Text as Python sees it: a sequence of code points. UTF-8 in and out; ill-formed bytes count as
 * one code point each and are never read past the end. Properties and case mappings are Python's.
 */
#ifndef WORKER_JINJA_JINJA_UNICODE_H
#define WORKER_JINJA_JINJA_UNICODE_H

#include "worker/jinja/jinja_value.h"

/* The code point at text and its bytes in *len; n > 0 bytes are there. */
uint32_t jinja_decode(const char *text, size_t n, size_t *len);
/* Writes up to 4 bytes, returns how many. Surrogates become their three bytes. */
size_t jinja_encode(uint32_t c, char out[4]);
bool jinja_is_ascii(const char *text, size_t n);
/* Code points in n bytes. */
size_t jinja_chars(const char *text, size_t n);
/* The byte offset of the character at `index` (at most n). */
size_t jinja_char_offset(const char *text, size_t n, size_t index);
/* false where the bytes are no UTF-8 (surrogates are none). */
bool jinja_is_utf8(const char *text, size_t n);

bool jinja_space(uint32_t c); /* str.isspace, \s, strip() */
bool jinja_alpha(uint32_t c);
bool jinja_decimal(uint32_t c);
bool jinja_digit(uint32_t c);
bool jinja_numeric(uint32_t c);
bool jinja_printable(uint32_t c);
bool jinja_upper(uint32_t c); /* Other_Uppercase too */
bool jinja_lower(uint32_t c);
bool jinja_title(uint32_t c);
bool jinja_word(uint32_t c); /* \w of Python's re */
/* Names in templates: the first character, or a later one. */
bool jinja_identifier(uint32_t c, bool first);

/* Bytes to cut from each side of text so that no white space (or none of `set`) is there. */
size_t jinja_left_space(const char *text, size_t n);
size_t jinja_right_space(const char *text, size_t n);

enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE, JINJA_FOLD };
/* Puts out the mapping of one character; `final` asks for the sigma that ends words. */
void jinja_put_case(struct jinja *j, uint32_t c, enum jinja_case to, bool final);
/* Puts out a string in that case (JINJA_TITLE: str.title). */
void jinja_put_text_case(struct jinja *j, const char *text, size_t n, enum jinja_case to);

#endif
