#include "supervisor/http/tokens.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/settings/config.h"
#include "supervisor/settings/secret_file.h"

enum { TOKENS_MAX = 256, FILE_MAX = 256 * 1024, TOKEN_MIN = 16, TOKEN_MAX = 512 };

static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

struct token {
	char name[TOKEN_NAME_MAX + 1];
	unsigned char digest[crypto_generichash_BYTES];
};

struct tokens {
	size_t count;
	struct token list[TOKENS_MAX];
};

/* Digests of equal length are compared, so that time tells nothing of a token, not even its length.
 */
static void
digest(const char *text, unsigned char out[crypto_generichash_BYTES])
{
	crypto_generichash(
	    out, crypto_generichash_BYTES, (const unsigned char *)text, strlen(text), NULL, 0);
}

/* Another token of the set. NULL, or what is wrong with it. */
static const char *
add(struct tokens *t, const char *name, const char *token)
{
	struct token *new = &t->list[t->count];
	size_t len = strlen(token);

	if (strlen(name) > TOKEN_NAME_MAX || name[strspn(name, name_letters)] != '\0')
		return "a name has 1 to 64 letters, digits, dots, dashes and underscores";
	if (len < TOKEN_MIN || len > TOKEN_MAX)
		return "a token has 16 to 512 characters";
	for (const char *p = token; *p != '\0'; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return "a token is visible ASCII";
	if (t->count == TOKENS_MAX)
		return "there are too many tokens";
	strcpy(new->name, name);
	digest(token, new->digest);
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->list[i].name, name) == 0)
			return "that name is there already";
		/* taking one of them away would not take the token away */
		if (sodium_memcmp(t->list[i].digest, new->digest, sizeof(new->digest)) == 0)
			return "that token is there already";
	}
	t->count++;
	return NULL;
}

static const char *
add_line(struct tokens *t, char *line)
{
	static const char blanks[] = " \t\r";
	char *rest = line + strspn(line, blanks), *name, *token;

	if (*rest == '\0' || *rest == '#')
		return NULL;
	name = strsep(&rest, blanks);
	token = rest != NULL ? rest + strspn(rest, blanks) : NULL;
	if (token == NULL || *token == '\0')
		return "it must be a name and a token";
	rest = token + strcspn(token, blanks);
	if (rest[strspn(rest, blanks)] != '\0')
		return "it must be a name and a token, and nothing more";
	*rest = '\0';
	return add(t, name, token);
}

static int
add_file(struct tokens *t, const struct config *c, char *reason)
{
	static const char what[] = "STEPD_TOKENS_FILE";
	const char *wrong = NULL;
	char *text, *rest, *line;
	unsigned number = 0;
	size_t len;

	if (secret_file_read(
		&text, c->tokens_file, !c->tokens_credential, FILE_MAX, what, reason) != 0)
		return -EINVAL;
	rest = text;
	len = strlen(text);
	while (wrong == NULL && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		wrong = add_line(t, line);
	}
	sodium_memzero(text, len); /* it is in pieces */
	free(text);
	if (wrong == NULL && t->count > 0)
		return 0;
	if (wrong != NULL)
		snprintf(reason, 256, "%s, line %u: %s", what, number, wrong);
	else
		snprintf(reason, 256, "%s holds no token", what);
	return -EINVAL;
}

int
tokens_read(struct tokens **out, const struct config *c, char reason[256])
{
	struct tokens *t = calloc(1, sizeof(*t));
	const char *wrong = NULL;

	*out = NULL;
	if (t == NULL) {
		snprintf(reason, 256, "tokens: out of memory");
		return -EINVAL;
	}
	if (c->token != NULL)
		wrong = add(t, "TRAINER_TOKEN", c->token);
	if (wrong != NULL)
		snprintf(reason, 256, "TRAINER_TOKEN: %s", wrong);
	if (wrong != NULL || (c->tokens_file != NULL && add_file(t, c, reason) != 0)) {
		tokens_free(t);
		return -EINVAL;
	}
	*out = t;
	return 0;
}

void
tokens_free(struct tokens *t)
{
	if (t != NULL)
		sodium_memzero(t, sizeof(*t));
	free(t);
}

size_t
tokens_count(const struct tokens *t)
{
	return t->count;
}

const char *
tokens_find(const struct tokens *t, const char *given)
{
	unsigned char got[crypto_generichash_BYTES];
	size_t found = 0; /* its place, from 1 on */

	digest(given, got);
	/* all of them, also after a hit */
	for (size_t i = 0; i < t->count; i++) {
		size_t hit = sodium_memcmp(got, t->list[i].digest, sizeof(got)) == 0;

		found |= (i + 1) & -hit;
	}
	return found != 0 ? t->list[found - 1].name : NULL;
}
