/*
 * Characters as tokenizers see them: stepping through UTF-8 that was checked before, the classes
 * that Rust's char and regex give (HF tokenizers is written in Rust), and the byte-level alphabet,
 * which gives every byte a visible character (GPT-2's bytes_to_unicode).
 */
#ifndef WORKER_TOKENIZER_CHARS_H
#define WORKER_TOKENIZER_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point at s, which is well-formed UTF-8; *len gets its bytes. */
static inline uint32_t
char_at(const char *s, size_t *len)
{
	const unsigned char *u = (const unsigned char *)s;

	if (u[0] < 0x80) {
		*len = 1;
		return u[0];
	}
	if (u[0] < 0xe0) {
		*len = 2;
		return (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
	}
	if (u[0] < 0xf0) {
		*len = 3;
		return (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
	}
	*len = 4;
	return (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
	       (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}

/* Where the character before s begins; s is not the start of its text. */
static inline const char *
char_before(const char *s)
{
	do
		s--;
	while (((unsigned char)*s & 0xc0) == 0x80);
	return s;
}

/* White_Space: what \s is to Oniguruma and Rust. */
bool char_is_space(uint32_t c);
/* General category N. */
bool char_is_numeric(uint32_t c);
/* \w as Rust's regex has it: Alphabetic, M, Nd, Pc, Join_Control. */
bool char_is_word(uint32_t c);
/* General category P, or ASCII punctuation (which has symbols too). */
bool char_is_punctuation(uint32_t c);

/* The character that stands for a byte, and back: -1 if c stands for none. */
uint32_t glyph_of_byte(unsigned char byte);
int byte_of_glyph(uint32_t c);
/* Writes the UTF-8 of a byte's glyph (1 or 2 bytes); returns its length. */
size_t glyph_put(char *out, unsigned char byte);

#endif
