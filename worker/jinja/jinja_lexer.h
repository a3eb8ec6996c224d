/*
 * The lexer: template source to tokens, with the rules of white space that transformers sets:
 * trim_blocks, lstrip_blocks, no trailing newline kept, `-` and `+` marks, raw blocks, comments.
 */
#ifndef WORKER_JINJA_JINJA_LEXER_H
#define WORKER_JINJA_JINJA_LEXER_H

#include "worker/jinja/jinja_value.h"

/* X(name, how a message tells it) */
/* clang-format off */
#define JINJA_TOKEN_LIST(X) \
	X(EOF, "end of template") X(DATA, "template data / text") \
	X(VARIABLE_BEGIN, "begin of print statement") \
	X(VARIABLE_END, "end of print statement") \
	X(BLOCK_BEGIN, "begin of statement block") X(BLOCK_END, "end of statement block") \
	X(NAME, "name") X(STRING, "string") X(INTEGER, "integer") X(FLOAT, "float") \
	X(ADD, "+") X(SUB, "-") X(DIV, "/") X(FLOORDIV, "//") X(MUL, "*") X(MOD, "%") \
	X(POW, "**") X(TILDE, "~") X(LBRACKET, "[") X(RBRACKET, "]") X(LPAREN, "(") \
	X(RPAREN, ")") X(LBRACE, "{") X(RBRACE, "}") X(EQ, "==") X(NE, "!=") X(GT, ">") \
	X(GTEQ, ">=") X(LT, "<") X(LTEQ, "<=") X(ASSIGN, "=") X(DOT, ".") X(COLON, ":") \
	X(PIPE, "|") X(COMMA, ",") X(SEMICOLON, ";")
/* clang-format on */
#define JINJA_TOKEN_ENUM(name, text) TOKEN_##name,
enum jinja_token_type { JINJA_TOKEN_LIST(JINJA_TOKEN_ENUM) };
#undef JINJA_TOKEN_ENUM

struct jinja_token {
	enum jinja_token_type type;
	uint32_t line;
	struct jinja_value value; /* text of DATA, NAME, STRING; number of INTEGER, FLOAT */
};

struct jinja_tokens {
	struct jinja_token *at; /* the last one is TOKEN_EOF */
	size_t count, size;
};

/* Reads the whole source into the arena of j; fails with its line (JINJA_SYNTAX). */
void jinja_lex(struct jinja *j, const char *source, size_t len, struct jinja_tokens *out);
/* For messages: the operator, the kind, or the name itself. */
const char *jinja_token_name(enum jinja_token_type type);

#endif
