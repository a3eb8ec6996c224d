/*
 * Answers that are kept, found again in the store by their key. A key belongs to a session; those
 * of calls without one have names of their own in the place of its id.
 */
#ifndef SUPERVISOR_SESSION_KEPT_FIND_H
#define SUPERVISOR_SESSION_KEPT_FIND_H

#include <stdbool.h>

#include "supervisor/session/kept_answer.h"

struct stepd;

/* In the place of 32 hex digits, and none of these. */
#define KEPT_OPENING "opening-------------------------"
#define KEPT_REMOVING "removing------------------------"
#define KEPT_SIGNING "signing-------------------------"

/* Is it older than answers are kept? A clock that was set back keeps them longer, never shorter. */
bool kept_is_over(const struct stepd *s, const struct kept_answer *answer);
/* The answer to a key, if it is not over: its views are into *data, which the caller frees. 0,
   -ENOENT, or -errno. */
int kept_find(
    struct stepd *s, const char *id, const char *key, struct kept_answer *answer, void **data);

#endif
