#include "worker/jinja/jinja_unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "worker/jinja/jinja_casing.h"

uint32_t
jinja_decode(const char *text, size_t n, size_t *len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned bytes = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c;

	*len = 1;
	if (bytes <= 1 || s[0] > 0xf4 || bytes > n)
		return s[0];
	c = s[0] & (0x7fu >> bytes);
	for (unsigned i = 1; i < bytes; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return s[0];
		c = c << 6 | (s[i] & 0x3f);
	}
	*len = bytes;
	return c;
}

size_t
jinja_encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

bool
jinja_is_ascii(const char *text, size_t n)
{
	unsigned char any = 0;

	for (size_t i = 0; i < n; i++)
		any |= (unsigned char)text[i];
	return any < 0x80;
}

size_t
jinja_chars(const char *text, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

size_t
jinja_char_offset(const char *text, size_t n, size_t index)
{
	size_t at = 0, len;

	if (jinja_is_ascii(text, n))
		return index < n ? index : n;
	for (; index > 0 && at < n; index--) {
		jinja_decode(text + at, n - at, &len);
		at += len;
	}
	return at;
}

bool
jinja_is_utf8(const char *text, size_t n)
{
	while (n > 0) {
		utf8proc_int32_t c;
		utf8proc_ssize_t len =
		    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);

		if (len <= 0)
			return false;
		text += len;
		n -= (size_t)len;
	}
	return true;
}

bool
jinja_space(uint32_t c)
{
	if (c < 0x80)
		return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t
category(uint32_t c)
{
	return utf8proc_category((utf8proc_int32_t)c);
}

bool
jinja_alpha(uint32_t c)
{
	utf8proc_category_t k = category(c);

	return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool
jinja_decimal(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_ND;
}

bool
jinja_digit(uint32_t c)
{
	return jinja_decimal(c) || (c >= 0x80 && jinja_kind_extra(JINJA_EXTRA_DIGIT, c));
}

bool
jinja_numeric(uint32_t c)
{
	utf8proc_category_t k = category(c);

	return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) ||
	       (c >= 0x80 && jinja_kind_extra(JINJA_EXTRA_NUMERIC, c));
}

bool
jinja_printable(uint32_t c)
{
	utf8proc_category_t k = category(c);

	return c == ' ' || (k != UTF8PROC_CATEGORY_CN &&
			       (k < UTF8PROC_CATEGORY_ZS || k > UTF8PROC_CATEGORY_CO));
}

bool
jinja_upper(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LU ||
	       (c >= 0x80 && jinja_kind_extra(JINJA_EXTRA_UPPER, c));
}

bool
jinja_lower(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LL ||
	       (c >= 0x80 && jinja_kind_extra(JINJA_EXTRA_LOWER, c));
}

bool
jinja_title(uint32_t c)
{
	return category(c) == UTF8PROC_CATEGORY_LT;
}

bool
jinja_word(uint32_t c)
{
	return c == '_' || jinja_alpha(c) || jinja_numeric(c);
}

bool
jinja_identifier(uint32_t c, bool first)
{
	utf8proc_category_t k = category(c);

	if (c == '_' || jinja_alpha(c) || k == UTF8PROC_CATEGORY_NL)
		return true;
	return !first && (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
			     k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC);
}

size_t
jinja_left_space(const char *text, size_t n)
{
	size_t at = 0, len;

	while (at < n && jinja_space(jinja_decode(text + at, n - at, &len)))
		at += len;
	return at;
}

size_t
jinja_right_space(const char *text, size_t n)
{
	size_t end = n, len;

	while (end > 0) {
		size_t start = end - 1;

		while (start > 0 && end - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80)
			start--;
		if (!jinja_space(jinja_decode(text + start, end - start, &len)) ||
		    start + len != end)
			break;
		end = start;
	}
	return n - end;
}

static void
put_char(struct jinja *j, uint32_t c)
{
	char bytes[4];

	jinja_put(j, bytes, jinja_encode(c, bytes));
}

void
jinja_put_case(struct jinja *j, uint32_t c, enum jinja_case to, bool final)
{
	const struct jinja_casing *row = c < 0x80 ? NULL : jinja_casing_find(c);
	utf8proc_int32_t folded[8];
	int last = 0;
	utf8proc_ssize_t count;

	if (to == JINJA_FOLD) {
		count = utf8proc_decompose_char(
		    (utf8proc_int32_t)c, folded, 8, UTF8PROC_CASEFOLD, &last);
		for (utf8proc_ssize_t i = 0; i < count && i < 8; i++)
			put_char(j, (uint32_t)folded[i]);
	} else if (to == JINJA_LOWER) {
		if (c == 0x130) /* dotted I */
			jinja_put(j, "i\xcc\x87", 3);
		else
			put_char(j, c == 0x3a3 && final
					? 0x3c2
					: (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
	} else if (row != NULL) {
		const uint32_t *full = to == JINJA_UPPER ? row->upper : row->title;

		for (int i = 0; i < 3 && full[i] != 0; i++)
			put_char(j, full[i]);
	} else {
		put_char(j, (uint32_t)(to == JINJA_UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
							 : utf8proc_totitle((utf8proc_int32_t)c)));
	}
}

/* Case_Ignorable is all but what the sigma rule meets in practice: marks, format characters,
   modifiers and the punctuation of words. */
static bool
ignorable(uint32_t c)
{
	utf8proc_category_t k = category(c);

	return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME ||
	       k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
	       k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xb7 ||
	       c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

static bool
cased(uint32_t c)
{
	return jinja_upper(c) || jinja_lower(c) || jinja_title(c);
}

/* Whether the sigma of `len` bytes at `at` ends a word: a cased character before, none after. */
static bool
ends_word(struct jinja *j, const char *text, size_t n, size_t at, size_t len)
{
	bool before = false;
	size_t i = at, step;

	while (i > 0) {
		size_t start = i - 1;
		uint32_t c;

		while (start > 0 && i - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80)
			start--;
		c = jinja_decode(text + start, i - start, &step);
		jinja_pay(j, 0);
		i = start;
		if (!ignorable(c)) {
			before = cased(c);
			break;
		}
	}
	for (i = at + len; before && i < n; i += step) {
		uint32_t c = jinja_decode(text + i, n - i, &step);

		jinja_pay(j, 0);
		if (!ignorable(c))
			return !cased(c);
	}
	return before;
}

static void
put_ascii_case(struct jinja *j, const char *text, size_t n, enum jinja_case to)
{
	char block[256];

	while (n > 0) {
		size_t k = n < sizeof(block) ? n : sizeof(block);

		for (size_t i = 0; i < k; i++) {
			unsigned char c = (unsigned char)text[i];

			if (to == JINJA_UPPER)
				c -= c >= 'a' && c <= 'z' ? 32 : 0;
			else
				c += c >= 'A' && c <= 'Z' ? 32 : 0;
			block[i] = (char)c;
		}
		jinja_put(j, block, k);
		text += k;
		n -= k;
	}
}

void
jinja_put_text_case(struct jinja *j, const char *text, size_t n, enum jinja_case to)
{
	bool inside = false; /* of a word, for JINJA_TITLE */
	size_t len;

	if (to != JINJA_TITLE && jinja_is_ascii(text, n)) {
		put_ascii_case(j, text, n, to);
		return;
	}
	for (size_t at = 0; at < n; at += len) {
		uint32_t c = jinja_decode(text + at, n - at, &len);
		enum jinja_case now = to == JINJA_TITLE && inside ? JINJA_LOWER : to;

		jinja_put_case(
		    j, c, now, c == 0x3a3 && now == JINJA_LOWER && ends_word(j, text, n, at, len));
		inside = cased(c);
	}
}
