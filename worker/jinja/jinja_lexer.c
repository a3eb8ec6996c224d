#include "worker/jinja/jinja_lexer.h"

#include <stdlib.h>
#include <string.h>

#include "worker/jinja/jinja_int.h"
#include "worker/jinja/jinja_literal.h"
#include "worker/jinja/jinja_unicode.h"

struct lexer {
	struct jinja *j;
	const char *s; /* newlines are \n */
	size_t n, at;
	uint32_t line;
	bool line_starting;	   /* the last match ended a line */
	char open[JINJA_NEST_MAX]; /* brackets to be closed, by their closing form */
	size_t opened;
	struct jinja_tokens *out;
};

const char *
jinja_token_name(enum jinja_token_type type)
{
#define NAME(name, text) [TOKEN_##name] = text,
	static const char *const names[] = {JINJA_TOKEN_LIST(NAME)};
#undef NAME

	return names[type];
}

static struct jinja_token *
push(struct lexer *x, enum jinja_token_type type)
{
	struct jinja_tokens *t = x->out;

	if (t->count == t->size) {
		size_t size = t->size == 0 ? 256 : t->size * 2;
		struct jinja_token *at = jinja_alloc_array(x->j, size, sizeof(*at));

		if (t->count != 0)
			memcpy(at, t->at, t->count * sizeof(*at));
		t->at = at;
		t->size = size;
	}
	x->j->line = x->line;
	t->at[t->count] = (struct jinja_token){.type = type, .line = x->line};
	return &t->at[t->count++];
}

/* Moves on, counting lines. */
static void
skip(struct lexer *x, size_t n)
{
	jinja_pay(x->j, n);
	for (size_t i = 0; i < n; i++)
		x->line += x->s[x->at + i] == '\n';
	x->at += n;
	if (n > 0)
		x->line_starting = x->s[x->at - 1] == '\n';
}

static bool
looking_at(const struct lexer *x, size_t at, const char *text)
{
	size_t len = strlen(text);

	return x->n - at >= len && memcmp(x->s + at, text, len) == 0;
}

/* \r\n and \r become \n, one final newline goes. */
static void
normalize(struct lexer *x, const char *source, size_t len)
{
	char *s = jinja_alloc(x->j, len);
	size_t n = 0;

	if (!jinja_is_utf8(source, len))
		jinja_fail(x->j, JINJA_SYNTAX, "the source is not UTF-8");
	for (size_t i = 0; i < len; i++) {
		if (source[i] == '\r') {
			s[n++] = '\n';
			i += i + 1 < len && source[i + 1] == '\n';
		} else {
			s[n++] = source[i];
		}
	}
	if (n > 0 && s[n - 1] == '\n')
		n--;
	x->s = s;
	x->n = n;
}

/* `mark` is what follows the opening: '-', '+' or 0; variables keep the space before them. */
static void
push_data(struct lexer *x, size_t start, size_t end, char mark, bool variable)
{
	const char *s = x->s + start;
	size_t n = end - start, line;

	if (mark == '-') {
		n -= jinja_right_space(s, n);
	} else if (mark != '+' && !variable) {
		for (line = n; line > 0 && s[line - 1] != '\n'; line--)
			;
		if ((line > 0 || x->line_starting) && line < n &&
		    jinja_left_space(s + line, n - line) == n - line)
			n = line;
	}
	if (n > 0)
		push(x, TOKEN_DATA)->value = jinja_string(s, n);
	skip(x, end - x->at);
}

/* Whether at `at` a tag of that name ends after optional space: the bytes to its end, or 0.
   trim: a newline after a plain %} belongs to it. */
static size_t
tag_length(const struct lexer *x, size_t at, const char *name, bool trim)
{
	size_t p = at + 2;

	if (p < x->n && (x->s[p] == '-' || x->s[p] == '+'))
		p++;
	p += jinja_left_space(x->s + p, x->n - p);
	if (!looking_at(x, p, name))
		return 0;
	p += strlen(name);
	p += jinja_left_space(x->s + p, x->n - p);
	if (looking_at(x, p, "-%}"))
		return p + 3 + jinja_left_space(x->s + p + 3, x->n - p - 3) - at;
	if (trim && looking_at(x, p, "+%}"))
		return p + 3 - at;
	if (!looking_at(x, p, "%}"))
		return 0;
	p += 2;
	return p + (trim && p < x->n && x->s[p] == '\n') - at;
}

static char
mark_at(const struct lexer *x, size_t at)
{
	return at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at] : 0;
}

static void
lex_raw(struct lexer *x)
{
	for (size_t p = x->at; p < x->n; p++) {
		size_t len;

		jinja_pay(x->j, 0);
		if (!looking_at(x, p, "{%") || (len = tag_length(x, p, "endraw", true)) == 0)
			continue;
		push_data(x, x->at, p, mark_at(x, p + 2), false);
		skip(x, len);
		return;
	}
	jinja_fail(x->j, JINJA_SYNTAX, "Missing end of raw directive");
}

static void
lex_comment(struct lexer *x)
{
	const char *end = memmem(x->s + x->at, x->n - x->at, "#}", 2);
	size_t p;
	char mark;

	if (end == NULL)
		jinja_fail(x->j, JINJA_SYNTAX, "Missing end of comment tag");
	p = (size_t)(end - x->s);
	mark = p > x->at ? end[-1] : 0;
	p += 2;
	if (mark == '-')
		p += jinja_left_space(x->s + p, x->n - p);
	else if (mark != '+' && p < x->n && x->s[p] == '\n')
		p++;
	skip(x, p - x->at);
}

/* Bytes of the end of a tag at the cursor, with the space that goes with it, or 0. */
static size_t
end_length(const struct lexer *x, bool block)
{
	size_t p = x->at;
	const char *plain = block ? "%}" : "}}";
	bool minus = x->s[p] == '-';

	if (minus || (block && x->s[p] == '+'))
		p++;
	if (!looking_at(x, p, plain))
		return 0;
	p += 2;
	if (minus)
		p += jinja_left_space(x->s + p, x->n - p);
	else if (block && p == x->at + 2 && p < x->n && x->s[p] == '\n')
		p++;
	return p - x->at;
}

static void
balance(struct lexer *x, char c)
{
	static const char opening[] = "{([", closing[] = "})]";
	const char *o = strchr(opening, c), *k = strchr(closing, c);

	if (o != NULL) {
		if (x->opened == sizeof(x->open))
			jinja_fail(x->j, JINJA_SYNTAX, "nested too deeply");
		x->open[x->opened++] = closing[o - opening];
	} else if (k != NULL) {
		if (x->opened == 0)
			jinja_fail(x->j, JINJA_SYNTAX, "unexpected '%c'", c);
		if (x->open[--x->opened] != c)
			jinja_fail(x->j, JINJA_SYNTAX, "unexpected '%c', expected '%c'", c,
			    x->open[x->opened]);
	}
}

static void
lex_operator(struct lexer *x)
{
	enum jinja_token_type best = TOKEN_EOF;
	size_t len, best_len = 0;

	for (enum jinja_token_type t = TOKEN_ADD; t <= TOKEN_SEMICOLON; t++) {
		len = strlen(jinja_token_name(t));
		if (len > best_len && looking_at(x, x->at, jinja_token_name(t))) {
			best = t;
			best_len = len;
		}
	}
	if (best_len == 0) {
		jinja_decode(x->s + x->at, x->n - x->at, &len);
		jinja_fail(x->j, JINJA_SYNTAX, "unexpected char '%.*s'", (int)len, x->s + x->at);
	}
	if (best_len == 1)
		balance(x, x->s[x->at]);
	push(x, best);
	skip(x, best_len);
}

static void
lex_name(struct lexer *x)
{
	size_t p = x->at, len = 0;
	uint32_t c;

	while (p < x->n) {
		c = jinja_decode(x->s + p, x->n - p, &len);
		if (!jinja_identifier(c, p == x->at))
			break;
		p += len;
	}
	push(x, TOKEN_NAME)->value = jinja_string(x->s + x->at, p - x->at);
	skip(x, p - x->at);
}

/* One token inside a tag. */
static void
lex_inside(struct lexer *x)
{
	struct jinja_value v;
	size_t len, space = jinja_left_space(x->s + x->at, x->n - x->at);
	char c;

	if (space > 0) {
		skip(x, space);
		return;
	}
	c = x->s[x->at];
	if ((len = jinja_float_length(x->s, x->n, x->at)) > 0) {
		v = jinja_float_literal(x->j, x->s + x->at, len);
		push(x, TOKEN_FLOAT)->value = v;
		skip(x, len);
	} else if ((len = jinja_integer_length(x->s, x->n, x->at)) > 0) {
		v = jinja_integer_literal(x->j, x->s + x->at, len);
		push(x, TOKEN_INTEGER)->value = v;
		skip(x, len);
	} else if (jinja_identifier(jinja_decode(x->s + x->at, x->n - x->at, &len), true)) {
		lex_name(x);
	} else if (c == '\'' || c == '"') {
		for (len = 1; x->at + len < x->n && x->s[x->at + len] != c; len++)
			len += x->s[x->at + len] == '\\';
		if (x->at + len >= x->n)
			jinja_fail(x->j, JINJA_SYNTAX, "unexpected char \"%c\"", c);
		x->j->line = x->line;
		v = jinja_string_literal(x->j, x->s + x->at + 1, len - 1);
		push(x, TOKEN_STRING)->value = v;
		skip(x, len + 1);
	} else {
		lex_operator(x);
	}
}

static void
lex_tag(struct lexer *x, bool block)
{
	size_t len;

	push(x, block ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN);
	skip(x, mark_at(x, x->at + 2) != 0 ? 3 : 2);
	x->opened = 0;
	while (x->at < x->n) {
		x->j->line = x->line;
		if (x->opened == 0 && (len = end_length(x, block)) > 0) {
			push(x, block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END);
			skip(x, len);
			return;
		}
		lex_inside(x);
	}
}

void
jinja_lex(struct jinja *j, const char *source, size_t len, struct jinja_tokens *out)
{
	struct lexer x = {.j = j, .line = 1, .line_starting = true, .out = out};

	memset(out, 0, sizeof(*out));
	normalize(&x, source, len);
	while (x.at < x.n) {
		size_t p = x.at, raw = 0;
		char kind;

		while (p < x.n && !(x.s[p] == '{' && p + 1 < x.n &&
				      strchr("%{#", x.s[p + 1]) != NULL && x.s[p + 1] != '\0'))
			p++;
		if (p == x.n) {
			push(&x, TOKEN_DATA)->value = jinja_string(x.s + x.at, x.n - x.at);
			skip(&x, x.n - x.at);
			break;
		}
		kind = x.s[p + 1];
		if (kind == '%')
			raw = tag_length(&x, p, "raw", false);
		push_data(&x, x.at, p, mark_at(&x, p + 2), kind == '{');
		j->line = x.line;
		if (raw > 0) {
			skip(&x, raw);
			lex_raw(&x);
		} else if (kind == '#') {
			skip(&x, mark_at(&x, p + 2) != 0 ? 3 : 2);
			lex_comment(&x);
		} else {
			lex_tag(&x, kind == '%');
		}
	}
	push(&x, TOKEN_EOF);
}
