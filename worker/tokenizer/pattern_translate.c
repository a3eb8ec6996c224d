#include "worker/tokenizer/pattern_translate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/pattern_class.h"

enum { MAX_GROUPS = 200 };

struct translation {
	struct pattern_source in;
	struct bytes *out;
	size_t depth;
	unsigned closers[MAX_GROUPS + 1]; /* options that opened a group of their own */
	size_t starts[MAX_GROUPS + 1];	  /* where each open group begins in out */
	bool caseless[MAX_GROUPS + 1];
	size_t atom;	 /* where the last atom begins in out; SIZE_MAX: none */
	bool quantified; /* it has a quantifier already */
};

static void
begin_atom(struct translation *t)
{
	t->atom = t->out->len;
	t->quantified = false;
}

static bool
at_text(const struct translation *t, const char *text)
{
	size_t n = strlen(text);

	return t->in.len - t->in.at >= n && memcmp(t->in.text + t->in.at, text, n) == 0;
}

/* {n}, {n,}, {,m} or {n,m} at in.at: its length, 0 if it is none and the brace a literal. */
static size_t
read_interval(const struct translation *t, long *low, long *high)
{
	const char *s = t->in.text + t->in.at + 1, *end = t->in.text + t->in.len, *p = s;
	const char *comma = NULL;

	*low = 0;
	*high = 0;
	for (; p < end && (isdigit((unsigned char)*p) || (*p == ',' && comma == NULL)); p++) {
		long *value = comma != NULL ? high : low;

		if (*p == ',')
			comma = p;
		else if (*value < 100000)
			*value = *value * 10 + (*p - '0');
	}
	if (p == end || *p != '}' || p == s || (comma != NULL && p == s + 1))
		return 0;
	if (comma == NULL)
		*high = *low;
	else if (comma + 1 == p)
		*high = -1; /* no upper bound */
	return (size_t)(p + 1 - s) + 1;
}

static int
put_interval(struct translation *t, size_t len, long low, long high)
{
	char text[48];

	if (low > 65535 || high > 65535 || (high >= 0 && low > high))
		return pattern_refuse(&t->in, "a repeat count out of range");
	if (high < 0)
		snprintf(text, sizeof(text), "{%ld,}", low);
	else
		snprintf(text, sizeof(text), "{%ld,%ld}", low, high);
	bytes_put_text(t->out, text);
	t->in.at += len;
	if (t->in.at < t->in.len && t->in.text[t->in.at] == '?') {
		if (low == high) /* {n}? is "n times, or not at all" to Oniguruma alone */
			return pattern_refuse(&t->in, "{n}?");
		bytes_put_text(t->out, "?");
		t->in.at++;
	}
	return 0;
}

static int
quantifier(struct translation *t, size_t interval, long low, long high)
{
	char c = t->in.text[t->in.at], after;

	if (t->atom == SIZE_MAX)
		return pattern_refuse(&t->in, "a repeat of nothing");
	if (t->quantified) { /* a repeat of a repeat */
		bytes_insert(t->out, t->atom, "(?:", 3);
		bytes_put_text(t->out, ")");
	}
	t->quantified = true;
	if (interval != 0)
		return put_interval(t, interval, low, high);
	bytes_put(t->out, &c, 1);
	t->in.at++;
	after = t->in.at < t->in.len ? t->in.text[t->in.at] : '\0';
	if (after == '?' || after == '+') {
		bytes_put(t->out, &after, 1);
		t->in.at++;
	}
	return 0;
}

static int
open_group(struct translation *t, const char *opening, size_t skip)
{
	if (t->depth == MAX_GROUPS)
		return pattern_refuse(&t->in, "too many nested groups");
	t->in.at += skip;
	t->depth++;
	t->closers[t->depth] = 0;
	t->caseless[t->depth] = t->caseless[t->depth - 1];
	t->starts[t->depth] = t->out->len;
	bytes_put_text(t->out, opening);
	t->atom = SIZE_MAX;
	return 0;
}

/* (?i), (?m-i:...) and their like; in.at on the first letter. */
static int
options(struct translation *t)
{
	char opening[16] = "(?";
	size_t n = 2;
	bool on = true, caseless = t->caseless[t->depth];

	for (; t->in.at < t->in.len; t->in.at++) {
		char c = t->in.text[t->in.at];

		if (c == ':' || c == ')')
			break;
		if (n > 10 || (c != 'i' && c != 'm' && c != '-'))
			return pattern_refuse(&t->in, "a group of this kind");
		if (c == '-')
			on = false;
		if (c == 'i')
			caseless = on;
		opening[n++] = c == 'm' ? 's' : c; /* Ruby's m: the dot takes newlines */
	}
	if (t->in.at >= t->in.len)
		return pattern_refuse(&t->in, "a group without end");
	opening[n++] = ':';
	if (t->in.text[t->in.at++] == ':') {
		if (open_group(t, opening, 0) != 0)
			return -1;
	} else { /* it holds to the end of the group around it, alternatives included */
		t->closers[t->depth]++;
		bytes_put(t->out, opening, n);
		t->atom = SIZE_MAX;
	}
	t->caseless[t->depth] = caseless;
	return 0;
}

static int
group(struct translation *t)
{
	static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
	const char *name;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		if (at_text(t, same[i]))
			return open_group(t, same[i], strlen(same[i]));
	if (at_text(t, "(?#")) {
		while (t->in.at < t->in.len && t->in.text[t->in.at] != ')')
			t->in.at += 1 + (t->in.text[t->in.at] == '\\');
		t->in.at++;
		return 0;
	}
	if (at_text(t, "(?<") || at_text(t, "(?'")) {
		char close = t->in.text[t->in.at + 2] == '<' ? '>' : '\'';

		name = memchr(t->in.text + t->in.at + 3, close, t->in.len - t->in.at - 3);
		if (name == NULL)
			return pattern_refuse(&t->in, "a group name without end");
		return open_group(t, "(?:", (size_t)(name + 1 - (t->in.text + t->in.at)));
	}
	if (at_text(t, "(*"))
		return pattern_refuse(&t->in, "a callout");
	if (!at_text(t, "(?"))
		return open_group(t, "(?:", 1);
	t->in.at += 2;
	return options(t);
}

static int
close_group(struct translation *t)
{
	if (t->depth == 0)
		return pattern_refuse(&t->in, "an unmatched )");
	for (unsigned i = 0; i <= t->closers[t->depth]; i++)
		bytes_put_text(t->out, ")");
	t->atom = t->starts[t->depth];
	t->quantified = false;
	t->depth--;
	t->in.at++;
	return 0;
}

static int
literal(struct translation *t, uint32_t c)
{
	/* Oniguruma's folding of single characters is Unicode's, as PCRE2's; its folding of one
	   character to several (an sz to ss) has no counterpart, and ASCII takes part only in pairs
	   that the contractions of known patterns do not have. */
	if (t->in.caseless && c >= 0x80)
		return pattern_refuse(&t->in, "case-insensitive matching of non-ASCII text");
	begin_atom(t);
	pattern_put_point(t->out, c);
	return 0;
}

static int
escape(struct translation *t)
{
	char c = t->in.at + 1 < t->in.len ? t->in.text[t->in.at + 1] : '\0';
	uint32_t point;
	int rc;

	begin_atom(t);
	if (c == 'R') { /* PCRE2's own takes it that a dot never matches what \R does */
		bytes_put_text(t->out, "(?>\\x0d\\x0a|[\\x0a-\\x0d\\x{85}\\x{2028}\\x{2029}])");
		t->in.at += 2;
		return 0;
	}
	if (c != '\0' && strchr("AzZ", c) != NULL) {
		bytes_put(t->out, t->in.text + t->in.at, 2);
		t->in.at += 2;
		return 0;
	}
	if (c == 'b' || c == 'B') {
		bytes_put_text(t->out, c == 'b' ? "(?:(?<=" PATTERN_WORD ")(?!" PATTERN_WORD
						  ")|(?<!" PATTERN_WORD ")(?=" PATTERN_WORD "))"
						: "(?:(?<=" PATTERN_WORD ")(?=" PATTERN_WORD
						  ")|(?<!" PATTERN_WORD ")(?!" PATTERN_WORD "))");
		t->in.at += 2;
		return 0;
	}
	rc = pattern_class_escape(&t->in, t->out);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (pattern_point_escape(&t->in, &point) != 0)
		return -1;
	return literal(t, point);
}

static int
item(struct translation *t)
{
	char c = t->in.text[t->in.at];
	long low, high;
	size_t n;

	t->in.caseless = t->caseless[t->depth];
	switch (c) {
	case '(':
		return group(t);
	case ')':
		return close_group(t);
	case '\\':
		return escape(t);
	case '[':
		begin_atom(t);
		return pattern_class(&t->in, t->out);
	case '*':
	case '+':
	case '?':
		return quantifier(t, 0, 0, 0);
	case '{':
		n = read_interval(t, &low, &high);
		if (n != 0)
			return quantifier(t, n, low, high);
		break;
	case '|':
		bytes_put_text(t->out, "|");
		t->atom = SIZE_MAX;
		t->in.at++;
		return 0;
	case '.':
	case '^':
	case '$':
		begin_atom(t);
		bytes_put(t->out, &c, 1);
		t->in.at++;
		return 0;
	}
	low = (long)char_at(t->in.text + t->in.at, &n);
	t->in.at += n;
	return literal(t, (uint32_t)low);
}

int
pattern_translate(
    struct bytes *out, const char *source, size_t len, const char *where, struct refusal *r)
{
	struct translation t = {
	    .in = {.text = source, .len = len, .where = where, .refusal = r},
	    .out = out,
	    .atom = SIZE_MAX,
	};

	while (t.in.at < t.in.len)
		if (item(&t) != 0)
			return -1;
	if (t.depth != 0)
		return pattern_refuse(&t.in, "a group without end");
	for (unsigned i = 0; i < t.closers[0]; i++)
		bytes_put_text(out, ")");
	return out->failed ? refuse_memory(r) : 0;
}
