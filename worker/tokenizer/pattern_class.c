#include "worker/tokenizer/pattern_class.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/chars.h"

enum { MAX_NESTED = 16 };

/* What a class holds while it is read: members to stand between brackets, and classes that cannot,
   as alternatives. */
struct set {
	struct bytes members;
	struct bytes others; /* "|[...]|..." */
};

/* Complements, for negated escapes among other members. */
#define NOT_SPACE_SET                                                                              \
	"\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"   \
	"\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"             \
	"\\x{3001}-\\x{10ffff}"

void
pattern_put_point(struct bytes *out, uint32_t c)
{
	char text[16];

	if (c < 0x80 && isalnum((int)c))
		snprintf(text, sizeof(text), "%c", (char)c);
	else
		snprintf(text, sizeof(text), "\\x{%x}", (unsigned)c);
	bytes_put_text(out, text);
}

int
pattern_class_escape(struct pattern_source *in, struct bytes *out)
{
	struct bytes members = {0};
	bool negated = false;
	int rc = pattern_members_escape(in, &members, &negated);

	if (rc == 1) {
		bytes_put_text(out, negated ? "[^" : "[");
		bytes_put(out, members.data, members.len);
		bytes_put_text(out, "]");
		out->failed |= members.failed;
	}
	bytes_fini(&members);
	return rc;
}

/* Digits of a number at in->at + skip, at most `most` of them: how many there are. */
static size_t
digits(const struct pattern_source *in, size_t skip, size_t most, bool hex, uint32_t *value)
{
	size_t n = 0;

	*value = 0;
	while (n < most && in->at + skip + n < in->len) {
		unsigned char c = (unsigned char)in->text[in->at + skip + n];

		if (hex ? !isxdigit(c) : c < '0' || c > '7')
			break;
		*value = *value * (hex ? 16 : 8) +
			 (isdigit(c) ? (uint32_t)c - '0' : (uint32_t)(c | 32) - 'a' + 10);
		n++;
	}
	return n;
}

/* \xHH, \x{H...}, \uHHHH, \0oo */
static int
numeric_escape(struct pattern_source *in, char c, uint32_t *point)
{
	bool braces = c == 'x' && in->text[in->at + 2] == '{';
	size_t n, skip = braces ? 3 : c == '0' ? 1 : 2;

	n = digits(in, skip, braces ? 8 : c == 'u' ? 4 : c == '0' ? 3 : 2, c != '0', point);
	if (n == 0 || (c == 'u' && n != 4) || (braces && in->text[in->at + skip + n] != '}') ||
	    *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return pattern_refuse(in, "a character number that is none");
	if (!braces && c != 'u' && *point >= 0x80)
		return pattern_refuse(in, "a byte that is not ASCII");
	in->at += skip + n + braces;
	return 0;
}

int
pattern_point_escape(struct pattern_source *in, uint32_t *point)
{
	static const char names[] = "tnrfaev", values[] = "\t\n\r\f\a\x1b\v";
	char c = in->at + 1 < in->len ? in->text[in->at + 1] : '\0';
	char what[16];
	size_t n;

	if (c == '\0')
		return pattern_refuse(in, "a lone backslash");
	if (c == 'x' || c == 'u' || c == '0')
		return numeric_escape(in, c, point);
	if (strchr(names, c) != NULL) {
		*point = (uint32_t)values[strchr(names, c) - names];
		in->at += 2;
		return 0;
	}
	if (isalnum((unsigned char)c)) {
		snprintf(what, sizeof(what), "\\%c", c);
		return pattern_refuse(in, what);
	}
	*point = char_at(in->text + in->at + 1, &n);
	in->at += 1 + n;
	return 0;
}

static int read_class(struct pattern_source *in, struct bytes *out, unsigned depth);

static void
add_other(struct set *set, const struct bytes *class)
{
	bytes_put_text(&set->others, "|");
	bytes_put(&set->others, class->data, class->len);
}

/* An escape that names a class, inside a class: 1, 0 if it names none, -1. */
static int
class_member_escape(struct pattern_source *in, struct set *set)
{
	struct bytes members = {0}, whole = {0};
	bool negated = false, space = in->at + 1 < in->len && in->text[in->at + 1] == 'S';
	int rc = pattern_members_escape(in, &members, &negated);

	if (rc == 1 && space) {
		bytes_put_text(&set->members, NOT_SPACE_SET);
	} else if (rc == 1 && negated) {
		bytes_put_text(&whole, "[^");
		bytes_put(&whole, members.data, members.len);
		bytes_put_text(&whole, "]");
		add_other(set, &whole);
	} else if (rc == 1) {
		bytes_put(&set->members, members.data, members.len);
	}
	set->members.failed |= members.failed || whole.failed;
	bytes_fini(&members);
	bytes_fini(&whole);
	return rc;
}

/* [:name:] at in->at, inside a class: 1, 0 if there is none, -1. */
static int
posix_bracket(struct pattern_source *in, struct set *set)
{
	const char *s = in->text + in->at, *end;

	if (strncmp(s, "[:", 2) != 0 || (end = strstr(s, ":]")) == NULL)
		return 0;
	for (const char *p = s + 2; p < end; p++)
		if (!isalpha((unsigned char)*p) && *p != '^')
			return 0;
	if (s[2] == '^')
		return pattern_refuse(in, "a negated POSIX bracket");
	if (pattern_members_named(in, &set->members, s + 2, (size_t)(end - s - 2)) != 0)
		return -1;
	if (end - s == 7 && memcmp(s + 2, "punct", 5) == 0)
		bytes_put_text(&set->members, "\\p{S}"); /* other than \p{Punct} */
	in->at += (size_t)(end + 2 - s);
	return 1;
}

static int
class_point(struct pattern_source *in, uint32_t *point)
{
	size_t n;

	if (in->text[in->at] == '\\')
		return pattern_point_escape(in, point);
	*point = char_at(in->text + in->at, &n);
	in->at += n;
	return 0;
}

/* One character, or a range. */
static int
class_range(struct pattern_source *in, struct set *set)
{
	uint32_t first, last;
	char after;

	if (class_point(in, &first) != 0)
		return -1;
	last = first;
	after = in->at + 1 < in->len ? in->text[in->at + 1] : '\0';
	if (in->text[in->at] == '-' && after != ']' && after != '\0') {
		in->at++;
		if (after == '[' || (after == '\\' && strchr("sSdDwWhHpP", in->text[in->at + 1])))
			return pattern_refuse(in, "a range that ends in a class");
		if (class_point(in, &last) != 0)
			return -1;
		if (last < first)
			return pattern_refuse(in, "a range that runs backwards");
	}
	if (in->caseless && last >= 0x80)
		return pattern_refuse(in, "case-insensitive matching of non-ASCII text");
	pattern_put_point(&set->members, first);
	if (last != first) {
		bytes_put_text(&set->members, "-");
		pattern_put_point(&set->members, last);
	}
	return 0;
}

/* The members up to ] or &&. */
static int
read_set(struct pattern_source *in, struct set *set, unsigned depth)
{
	bool first = true;

	for (; in->at < in->len; first = false) {
		const char *s = in->text + in->at;
		int rc = 0;

		if ((*s == ']' && !first) || strncmp(s, "&&", 2) == 0)
			return 0;
		if (*s == '[') {
			rc = posix_bracket(in, set);
			if (rc == 0) {
				struct bytes nested = {0};

				rc = read_class(in, &nested, depth + 1);
				add_other(set, &nested);
				bytes_fini(&nested);
				if (rc == 0)
					continue;
			}
		} else if (*s == '\\') {
			rc = class_member_escape(in, set);
		}
		if (rc == 0)
			rc = class_range(in, set);
		if (rc < 0)
			return -1;
	}
	return pattern_refuse(in, "a class without end");
}

/* Writes a set as something that takes one character: atomic, so that a character which several of
   its alternatives would take is not tried with each. */
static void
put_set(struct bytes *out, const struct set *set, bool negated)
{
	if (set->others.len == 0) {
		bytes_put_text(out, negated ? "[^" : "[");
		bytes_put(out, set->members.data, set->members.len);
		bytes_put_text(out, "]");
		return;
	}
	bytes_put_text(out, negated ? "(?>(?!" : "(?>");
	if (set->members.len != 0) {
		bytes_put_text(out, "[");
		bytes_put(out, set->members.data, set->members.len);
		bytes_put_text(out, "]");
		bytes_put(out, set->others.data, set->others.len);
	} else {
		bytes_put(out, set->others.data + 1, set->others.len - 1);
	}
	bytes_put_text(out, negated ? ")(?s:.))" : ")");
}

/* [a&&b&&c] takes what a takes where b and c would match too. */
static int
read_class(struct pattern_source *in, struct bytes *out, unsigned depth)
{
	struct bytes parts = {0}, last = {0};
	bool negated, several = false;
	int rc = 0;

	if (depth == MAX_NESTED)
		return pattern_refuse(in, "classes nested too deeply");
	in->at++;
	negated = in->at < in->len && in->text[in->at] == '^';
	in->at += negated;
	for (;;) {
		struct set set = {0};
		bool end;

		rc = read_set(in, &set, depth);
		end = rc != 0 || in->text[in->at] == ']';
		if (rc == 0 && set.members.len + set.others.len == 0)
			rc = pattern_refuse(in, "an empty class");
		if (rc == 0) {
			last.len = 0;
			put_set(&last, &set, end && !several && negated);
			if (!end) {
				bytes_put_text(&parts, "(?=");
				bytes_put(&parts, last.data, last.len);
				bytes_put_text(&parts, ")");
			}
		}
		out->failed |= set.members.failed || set.others.failed || last.failed;
		bytes_fini(&set.members);
		bytes_fini(&set.others);
		in->at += end ? 1 : 2;
		if (end || rc != 0)
			break;
		several = true;
	}
	if (several) {
		bytes_put_text(out, negated ? "(?>(?!" : "(?>");
		bytes_put(out, parts.data, parts.len);
	}
	bytes_put(out, last.data, last.len);
	if (several)
		bytes_put_text(out, negated ? ")(?s:.))" : ")");
	out->failed |= parts.failed;
	bytes_fini(&parts);
	bytes_fini(&last);
	return rc;
}

int
pattern_class(struct pattern_source *in, struct bytes *out)
{
	int rc;

	in->in_class = true;
	rc = read_class(in, out, 0);
	in->in_class = false;
	return rc;
}
