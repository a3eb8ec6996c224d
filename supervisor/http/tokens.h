/*
 * The tokens of clients, by name: TRAINER_TOKEN (which is called so) and the lines of
 * STEPD_TOKENS_FILE, `name token`, with comments after # at a line's start. Only digests are kept.
 * A set does not change: SIGHUP reads another one.
 */
#ifndef SUPERVISOR_HTTP_TOKENS_H
#define SUPERVISOR_HTTP_TOKENS_H

#include <stddef.h>

enum { TOKEN_NAME_MAX = 64 };

struct config;
struct tokens;

/* 0, or -EINVAL with a sentence in reason that names the line, never a token. */
int tokens_read(struct tokens **out, const struct config *c, char reason[256]);
void tokens_free(struct tokens *t);
size_t tokens_count(const struct tokens *t);

/* The name of that token, a view of the set's, or NULL: unknown. Takes the same time for every
   token of a length, known or not. */
const char *tokens_find(const struct tokens *t, const char *given);

#endif
