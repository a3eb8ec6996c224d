#include "worker/tokenizer/chars.h"

#include <utf8proc.h>

bool
char_is_space(uint32_t c)
{
	if (c < 0x80)
		return c == ' ' || (c >= '\t' && c <= '\r');
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t
category(uint32_t c)
{
	return utf8proc_category((utf8proc_int32_t)c);
}

bool
char_is_numeric(uint32_t c)
{
	utf8proc_category_t k;

	if (c < 0x80)
		return c >= '0' && c <= '9';
	k = category(c);
	return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool
char_is_word(uint32_t c)
{
	utf8proc_category_t k = category(c);

	if ((k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_ME) || k == UTF8PROC_CATEGORY_ND ||
	    k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC)
		return true;
	/* Other_Alphabetic outside the categories above: letters in circles and squares. */
	return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
	       (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c ||
	       c == 0x200d;
}

bool
char_is_punctuation(uint32_t c)
{
	utf8proc_category_t k;

	if (c < 0x80)
		return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
		       (c >= '{' && c <= '~');
	k = category(c);
	return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

/* Printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up, in order. */
static bool
is_own_glyph(uint32_t byte)
{
	return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

uint32_t
glyph_of_byte(unsigned char byte)
{
	if (is_own_glyph(byte))
		return byte;
	if (byte <= 0x20)
		return 0x100u + byte;
	if (byte <= 0xa0)
		return 0x121u + (byte - 0x7fu);
	return 0x143; /* 0xad */
}

int
byte_of_glyph(uint32_t c)
{
	if (c < 0x100)
		return is_own_glyph(c) ? (int)c : -1;
	if (c <= 0x120)
		return (int)(c - 0x100);
	if (c <= 0x142)
		return (int)(c - 0x121 + 0x7f);
	return c == 0x143 ? 0xad : -1;
}

size_t
glyph_put(char *out, unsigned char byte)
{
	uint32_t c = glyph_of_byte(byte);

	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = (char)(0xc0 | c >> 6);
	out[1] = (char)(0x80 | (c & 0x3f));
	return 2;
}
