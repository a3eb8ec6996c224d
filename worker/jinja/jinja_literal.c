#include "worker/jinja/jinja_literal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_unicode.h"

static bool
is_digit(char c, unsigned base)
{
	if (base == 16 && ((c | 32) >= 'a' && (c | 32) <= 'f'))
		return true;
	return c >= '0' && c < '0' + (base > 10 ? 10 : (int)base);
}

/* Digits with single underscores between them, from s[at]: bytes, 0 if none. */
static size_t
digits(const char *s, size_t n, size_t at, unsigned base)
{
	size_t p = at;

	while (p < n && (is_digit(s[p], base) ||
			    (s[p] == '_' && p > at && p + 1 < n && is_digit(s[p + 1], base))))
		p++;
	return p - at;
}

size_t
jinja_float_length(const char *s, size_t n, size_t at)
{
	size_t p = at, len;
	bool fraction = false;

	if (at > 0 && s[at - 1] == '.')
		return 0;
	if ((len = digits(s, n, p, 10)) == 0)
		return 0;
	p += len;
	if (p < n && s[p] == '.' && (len = digits(s, n, p + 1, 10)) > 0) {
		p += 1 + len;
		fraction = true;
	}
	if (p < n && (s[p] == 'e' || s[p] == 'E')) {
		size_t e = p + 1;

		if (e < n && (s[e] == '+' || s[e] == '-'))
			e++;
		if ((len = digits(s, n, e, 10)) > 0)
			return e + len - at;
	}
	return fraction ? p - at : 0;
}

size_t
jinja_integer_length(const char *s, size_t n, size_t at)
{
	size_t len;

	if (at + 1 < n && s[at] == '0') {
		char kind = s[at + 1] | 32;
		unsigned base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 0;
		size_t p = at + 2;

		if (base != 0) {
			if (p < n && s[p] == '_')
				p++;
			if ((len = digits(s, n, p, base)) > 0)
				return p + len - at;
		}
	}
	if (at < n && s[at] == '0') {
		for (len = 1; at + len < n; len++) {
			if (s[at + len] == '_' && at + len + 1 < n && s[at + len + 1] == '0')
				len++;
			else if (s[at + len] != '0')
				break;
		}
		return len;
	}
	return digits(s, n, at, 10);
}

bool
jinja_int_parse(struct jinja *j, const char *digits, size_t len, unsigned base, bool negative,
    struct jinja_value *out)
{
	struct jinja_value v = jinja_int(0);

	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)digits[i];
		unsigned digit = c >= '0' && c <= '9'		      ? c - 0u - '0'
				 : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10u
								      : 36;

		if (digit >= base)
			return false;
		v = jinja_int_binary(j, '*', v, jinja_int(base));
		v = jinja_int_binary(j, '+', v, jinja_int(digit));
	}
	*out = negative ? jinja_int_negate(j, v) : v;
	return true;
}

/* Copies without underscores, as a C string. */
static char *
without_underscores(struct jinja *j, const char *s, size_t n, size_t *len)
{
	char *copy = jinja_alloc(j, n + 1);

	*len = 0;
	for (size_t i = 0; i < n; i++)
		if (s[i] != '_')
			copy[(*len)++] = s[i];
	return copy;
}

struct jinja_value
jinja_float_literal(struct jinja *j, const char *s, size_t n)
{
	return jinja_float(strtod(without_underscores(j, s, n, &n), NULL));
}

struct jinja_value
jinja_integer_literal(struct jinja *j, const char *s, size_t n)
{
	struct jinja_value v = jinja_int(0);
	const char *text = without_underscores(j, s, n, &n);
	char kind = n > 1 && text[0] == '0' ? text[1] | 32 : 0;
	unsigned base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 10;

	if (base == 10 && n > JINJA_DIGITS_MAX)
		jinja_fail(j, JINJA_SYNTAX, "an integer of more than %d digits", JINJA_DIGITS_MAX);
	if (base != 10) {
		text += 2;
		n -= 2;
	}
	jinja_int_parse(j, text, n, base, false, &v);
	return v;
}

static uint32_t
hex_escape(struct jinja *j, const char *s, size_t n, size_t count)
{
	uint32_t c = 0;

	for (size_t i = 0; i < count; i++) {
		if (i >= n || !is_digit(s[i], 16))
			jinja_fail(j, JINJA_SYNTAX, "truncated escape in a string");
		c = c << 4 | (uint32_t)(s[i] <= '9' ? s[i] - '0' : (s[i] | 32) - 'a' + 10);
	}
	return c;
}

/* The escape whose letter is s[0]: writes what it means to *out, returns the bytes it takes. */
static size_t
escape(struct jinja *j, const char *s, size_t n, char **out)
{
	static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
	const char *letter = strchr(letters, s[0]);
	size_t used = 1;
	uint32_t c = 0;

	if (s[0] == '\n')
		return 1;
	if (letter != NULL && s[0] != '\0') {
		*(*out)++ = values[letter - letters];
		return 1;
	}
	if (s[0] == 'x' || s[0] == 'u' || s[0] == 'U') {
		used = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
		c = hex_escape(j, s + 1, n - 1, used++);
	} else if (is_digit(s[0], 8)) {
		for (used = 0; used < 3 && used < n && is_digit(s[used], 8); used++)
			c = c * 8 + (uint32_t)(s[used] - '0');
	} else if (s[0] == 'N') {
		jinja_fail(j, JINJA_SYNTAX, "the escape \\N{...} is not supported");
	} else {
		*(*out)++ = '\\';
		return 0;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		jinja_fail(j, JINJA_SYNTAX, "an escape that is no character");
	*out += jinja_encode(c, *out);
	return used;
}

struct jinja_value
jinja_string_literal(struct jinja *j, const char *s, size_t n)
{
	char *text, *out;

	jinja_pay(j, n);
	if (memchr(s, '\\', n) == NULL)
		return jinja_string(s, n);
	/* An escape is never shorter than what it means. */
	text = out = jinja_alloc(j, n + 4);
	for (size_t i = 0; i < n;) {
		if (s[i] != '\\') {
			*out++ = s[i++];
			continue;
		}
		i++;
		i += escape(j, s + i, n - i, &out);
	}
	return jinja_string(text, (size_t)(out - text));
}

/* Trims, and turns Unicode's decimal digits into ASCII ones. A C string of the arena. */
static char *
plain_number(struct jinja *j, const char *s, size_t n, size_t *out_len)
{
	size_t left = jinja_left_space(s, n), len = 0, step;
	char *text;

	n -= left;
	s += left;
	n -= jinja_right_space(s, n);
	text = jinja_alloc(j, n + 1);
	jinja_pay(j, n);
	for (size_t i = 0; i < n; i += step) {
		uint32_t c = jinja_decode(s + i, n - i, &step), zero = c;

		if (c >= 0x80 && jinja_decimal(c)) {
			/* Each script's digits are ten in a row, the first of them its zero. */
			while (c - zero < 9 && jinja_decimal(zero - 1))
				zero--;
			text[len++] = (char)('0' + (c - zero) % 10);
		} else if (c < 0x80) {
			text[len++] = (char)c;
		} else {
			text[len++] = '?';
		}
	}
	text[len] = '\0';
	*out_len = len;
	return text;
}

bool
jinja_parse_int(struct jinja *j, const char *s, size_t n, unsigned base, struct jinja_value *out)
{
	char *text = plain_number(j, s, n, &n);
	bool negative = n > 0 && text[0] == '-', digit = false;
	size_t len = 0;

	if (n > 0 && (text[0] == '-' || text[0] == '+')) {
		text++;
		n--;
	}
	if (n > 1 && text[0] == '0') {
		char kind = text[1] | 32;
		unsigned prefix = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 0;

		if (prefix != 0 && (base == prefix || base == 0)) {
			base = prefix;
			text += 2;
			n -= 2;
			digit = true; /* an underscore may follow the prefix */
		} else if (base == 0 && strspn(text, "0_") != n) {
			return false;
		}
	}
	if (base == 0)
		base = 10;
	if (base == 1 || base > 36)
		jinja_fail(j, JINJA_RUNTIME, "int() base must be >= 2 and <= 36, or 0");
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '_' && (!digit || i + 1 == n))
			return false;
		digit = text[i] != '_';
		if (digit)
			text[len++] = text[i];
	}
	if (base == 10 && len > JINJA_DIGITS_MAX)
		return false;
	return jinja_int_parse(j, text, len, base, negative, out);
}

bool
jinja_parse_float(struct jinja *j, const char *s, size_t n, double *out)
{
	char *text = plain_number(j, s, n, &n), *p = text, *end;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (text[i] != '_')
			text[len++] = text[i];
		else if (i == 0 || i + 1 == n || !is_digit(text[i - 1], 10) ||
			 !is_digit(text[i + 1], 10))
			return false;
	}
	text[len] = '\0';
	if (*p == '+' || *p == '-')
		p++;
	if (strlen(text) != len || len == 0)
		return false;
	if (strcasecmp(p, "inf") != 0 && strcasecmp(p, "infinity") != 0 &&
	    strcasecmp(p, "nan") != 0 && strspn(p, "0123456789.eE+-") != strlen(p))
		return false;
	*out = strtod(text, &end);
	return end == text + len;
}
