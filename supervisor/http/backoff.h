/*
 * Wrong tokens by where they come from: the answer to one waits the longer, the more there were.
 * An address that wrote IPv4 into IPv6 is the IPv4 one, and the /64 of an IPv6 address is one
 * place, for that is what a customer of a network is given. The table is of a fixed size; a new
 * place takes that of the one not heard of for longest.
 */
#ifndef SUPERVISOR_HTTP_BACKOFF_H
#define SUPERVISOR_HTTP_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff;
struct in6_addr;

enum {
	BACKOFF_PLACES = 4096,
	BACKOFF_FREE = 20,		/* a person's typing errors, a script's first tries */
	BACKOFF_FIRST_MS = 50,		/* doubled by each further one */
	BACKOFF_MOST_MS = 3200,		/* a client's patience is 5 seconds at the least */
	BACKOFF_FORGIVE_MS = 10 * 1000, /* for one of them to be forgotten */
};

/* NULL: no memory. */
struct backoff *backoff_new(void);
void backoff_free(struct backoff *b);

/* Wrong tokens so far, from everywhere. */
uint64_t backoff_count(const struct backoff *b);
/* A wrong token came from there. Returns the milliseconds that its answer shall wait. *news: this
   is the first one that has to wait since long, for the log. now_ms: monotonic. */
unsigned backoff_wrong(
    struct backoff *b, const struct in6_addr *address, uint64_t now_ms, bool *news);

#endif
