#include "worker/jinja/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>

_Noreturn void
jinja_parse_fail(struct jinja_parser *p, uint32_t line, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	p->j->line = line;
	jinja_fail(p->j, JINJA_SYNTAX, "%s", text);
}

bool
jinja_at(const struct jinja_parser *p, enum jinja_token_type type)
{
	return p->at->type == type;
}

bool
jinja_at_name(const struct jinja_parser *p, const char *name)
{
	return p->at->type == TOKEN_NAME && jinja_string_is(p->at->value, name);
}

const struct jinja_token *
jinja_next(struct jinja_parser *p)
{
	const struct jinja_token *token = p->at;

	p->j->line = token->line;
	if (token->type != TOKEN_EOF)
		p->at++;
	return token;
}

bool
jinja_skip_if(struct jinja_parser *p, enum jinja_token_type type)
{
	if (!jinja_at(p, type))
		return false;
	jinja_next(p);
	return true;
}

bool
jinja_skip_name(struct jinja_parser *p, const char *name)
{
	if (!jinja_at_name(p, name))
		return false;
	jinja_next(p);
	return true;
}

static _Noreturn void
fail_expected(struct jinja_parser *p, const char *wanted)
{
	if (p->at->type == TOKEN_EOF)
		jinja_parse_fail(
		    p, p->at->line, "unexpected end of template, expected '%s'", wanted);
	if (p->at->type == TOKEN_NAME)
		jinja_parse_fail(p, p->at->line, "expected token '%s', got '%.*s'", wanted,
		    p->at->value.len > 80 ? 80 : (int)p->at->value.len, p->at->value.text);
	jinja_parse_fail(
	    p, p->at->line, "expected token '%s', got '%s'", wanted, jinja_token_name(p->at->type));
}

const struct jinja_token *
jinja_expect(struct jinja_parser *p, enum jinja_token_type type)
{
	if (!jinja_at(p, type))
		fail_expected(p, jinja_token_name(type));
	return jinja_next(p);
}

void
jinja_expect_name(struct jinja_parser *p, const char *name)
{
	if (!jinja_skip_name(p, name))
		fail_expected(p, name);
}

void
jinja_descend(struct jinja_parser *p)
{
	if (++p->depth > JINJA_NEST_MAX)
		jinja_parse_fail(p, p->at->line, "nested too deeply");
}
