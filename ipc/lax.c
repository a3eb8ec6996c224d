#include "ipc/lax.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t len;
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* White space of Unicode beyond ASCII, in UTF-8: what a number in a string may stand between. */
static const char *const wide_spaces[] = {"\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001",
    "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

/* Bytes of the white space character that text starts with (or ends with), else 0. */
static size_t
space_at(struct span s, bool end)
{
	char c;

	if (s.len == 0)
		return 0;
	c = end ? s.at[s.len - 1] : s.at[0];
	if (c == ' ' || (c >= '\t' && c <= '\r'))
		return 1;
	for (size_t i = 0; i < sizeof(wide_spaces) / sizeof(wide_spaces[0]); i++) {
		size_t len = strlen(wide_spaces[i]);

		if (len <= s.len &&
		    memcmp(end ? s.at + s.len - len : s.at, wide_spaces[i], len) == 0)
			return len;
	}
	return 0;
}

static struct span
trim(const char *text, size_t len)
{
	struct span s = {text, len};

	for (size_t n; (n = space_at(s, false)) != 0; s.at += n)
		s.len -= n;
	for (size_t n; (n = space_at(s, true)) != 0;)
		s.len -= n;
	return s;
}

/* Digits with single underscores between them, as an integer that saturates. */
static bool
read_digits(struct span s, bool negative, int64_t *out)
{
	uint64_t value = 0, limit = negative ? (uint64_t)1 << 63 : INT64_MAX;

	for (size_t i = 0; i < s.len; i++) {
		unsigned digit;

		if (s.at[i] == '_' && i > 0 && i + 1 < s.len && is_digit(s.at[i - 1]))
			continue;
		if (!is_digit(s.at[i]))
			return false;
		digit = (unsigned)(s.at[i] - '0');
		value = value > (limit - digit) / 10 ? limit : value * 10 + digit;
	}
	*out = negative ? (int64_t)(0 - value) : (int64_t)value;
	return s.len > 0;
}

/* One sign, digits, and then, if anything, a point with zeros only. */
static enum lax
string_integer(const char *text, size_t len, int64_t *out)
{
	struct span s = trim(text, len);
	const char *point;
	bool negative = false;

	if (s.len > 0 && (s.at[0] == '+' || s.at[0] == '-')) {
		negative = s.at[0] == '-';
		s = (struct span){s.at + 1, s.len - 1};
	}
	point = memchr(s.at, '.', s.len);
	if (point != NULL) {
		const char *zero = point + 1, *end = s.at + s.len;

		if (zero == end)
			return LAX_PARSE;
		for (; zero < end; zero++)
			if (*zero != '0')
				return LAX_PARSE;
		s.len = (size_t)(point - s.at);
	}
	/* Among leading zeros the reference lets underscores be doubled. */
	if (s.len > 0 && s.at[0] == '0')
		while (s.len > 1 && (s.at[0] == '0' || s.at[0] == '_'))
			s = (struct span){s.at + 1, s.len - 1};
	if (!read_digits(s, negative, out))
		return LAX_PARSE;
	return s.len > LAX_DIGITS_MAX ? LAX_SIZE : LAX_OK;
}

static enum lax
float_integer(double value, int64_t *out)
{
	if (!isfinite(value))
		return LAX_NONFINITE;
	if (trunc(value) != value)
		return LAX_FRACTION;
	if (fabs(value) >= 0x1p63)
		return LAX_SIZE;
	*out = (int64_t)value;
	return LAX_OK;
}

enum lax
lax_integer(struct json v, int64_t *out)
{
	const char *text;
	size_t len;
	double value;

	switch (json_type(v)) {
	case JSON_STRING:
		text = json_string(v, &len);
		return string_integer(text, len, out);
	case JSON_NUMBER:
		text = json_number(v, &len);
		if (strpbrk(text, ".eEnI") != NULL)
			return json_double(v, &value) ? float_integer(value, out) : LAX_TYPE;
		if (len > LAX_DIGITS_MAX + (text[0] == '-'))
			return LAX_SIZE;
		return string_integer(text, len, out);
	default:
		return LAX_TYPE;
	}
}

/* Digits, a point among or beside them, an exponent: what is left of strtod without hex, locale. */
static bool
is_decimal(const char *s)
{
	size_t digits = 0;

	s += *s == '+' || *s == '-';
	if (strcasecmp(s, "inf") == 0 || strcasecmp(s, "infinity") == 0 ||
	    strcasecmp(s, "nan") == 0)
		return true;
	for (; is_digit(*s); s++)
		digits++;
	if (*s == '.')
		for (s++; is_digit(*s); s++)
			digits++;
	if (digits == 0)
		return false;
	if (*s == 'e' || *s == 'E') {
		s++;
		s += *s == '+' || *s == '-';
		if (!is_digit(*s))
			return false;
		while (is_digit(*s))
			s++;
	}
	return *s == '\0';
}

/* Drops underscores; false where one is first, last or doubled. */
static bool
drop_underscores(char *text)
{
	size_t len = strlen(text);
	char *to = text;

	if (len == 0 || text[0] == '_' || text[len - 1] == '_' || strstr(text, "__") != NULL)
		return false;
	for (const char *from = text; *from != '\0'; from++)
		if (*from != '_')
			*to++ = *from;
	*to = '\0';
	return true;
}

/* White space is trimmed of a number without underscores only: so the reference has it. */
static enum lax
string_number(const char *text, size_t len, double *out)
{
	struct span s = memchr(text, '_', len) == NULL ? trim(text, len) : (struct span){text, len};
	enum lax result = LAX_PARSE;
	char *copy = strndup(s.at, s.len);

	if (copy == NULL)
		return LAX_PARSE;
	if (strlen(copy) == s.len && (strchr(copy, '_') == NULL || drop_underscores(copy)) &&
	    is_decimal(copy)) {
		*out = strtod(copy, NULL);
		result = LAX_OK;
	}
	free(copy);
	return result;
}

enum lax
lax_number(struct json v, double *out)
{
	const char *text;
	size_t len;

	switch (json_type(v)) {
	case JSON_STRING:
		text = json_string(v, &len);
		return string_number(text, len, out);
	case JSON_NUMBER:
		text = json_number(v, &len);
		if (!json_double(v, out))
			return LAX_TYPE;
		/* An integer beyond the range of a float is no float; 1e400 is infinity. */
		return isinf(*out) && strpbrk(text, ".eEI") == NULL ? LAX_TYPE : LAX_OK;
	default:
		return LAX_TYPE;
	}
}
