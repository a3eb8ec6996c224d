#include "supervisor/http/backoff.h"

#include <netinet/in.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct place {
	TAILQ_ENTRY(place) age;
	LIST_ENTRY(place) chain;
	uint8_t address[16];
	unsigned wrong; /* tokens, those forgotten left out */
	uint64_t since; /* that count is as of then, monotonic milliseconds */
};

struct backoff {
	uint64_t count;		  /* of wrong tokens, ever */
	size_t used;		  /* places, from the first on: the others cost no memory yet */
	TAILQ_HEAD(, place) ages; /* not heard of for longest first */
	LIST_HEAD(, place) chains[BACKOFF_PLACES];
	/* Of the chains: nobody can choose addresses that share one. */
	unsigned char key[crypto_shorthash_KEYBYTES];
	struct place places[BACKOFF_PLACES];
};

struct backoff *
backoff_new(void)
{
	struct backoff *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	crypto_shorthash_keygen(b->key);
	TAILQ_INIT(&b->ages);
	return b;
}

void
backoff_free(struct backoff *b)
{
	free(b);
}

uint64_t
backoff_count(const struct backoff *b)
{
	return b->count;
}

static struct place *
find(struct backoff *b, const struct in6_addr *address)
{
	unsigned char hash[crypto_shorthash_BYTES];
	uint8_t key[16];
	struct place *p;
	uint32_t at;

	memcpy(key, address, sizeof(key));
	if (!IN6_IS_ADDR_V4MAPPED(address))
		memset(key + 8, 0, 8);
	crypto_shorthash(hash, key, sizeof(key), b->key);
	memcpy(&at, hash, sizeof(at));
	at %= BACKOFF_PLACES;
	LIST_FOREACH (p, &b->chains[at], chain)
		if (memcmp(p->address, key, sizeof(key)) == 0)
			return p;
	if (b->used < BACKOFF_PLACES) {
		p = &b->places[b->used++];
	} else {
		p = TAILQ_FIRST(&b->ages);
		TAILQ_REMOVE(&b->ages, p, age);
		LIST_REMOVE(p, chain);
	}
	p->wrong = 0;
	TAILQ_INSERT_TAIL(&b->ages, p, age);
	memcpy(p->address, key, sizeof(key));
	LIST_INSERT_HEAD(&b->chains[at], p, chain);
	return p;
}

unsigned
backoff_wrong(struct backoff *b, const struct in6_addr *address, uint64_t now_ms, bool *news)
{
	struct place *p = find(b, address);
	uint64_t forgotten = p->wrong > 0 ? (now_ms - p->since) / BACKOFF_FORGIVE_MS : 0;
	unsigned wait = BACKOFF_FIRST_MS;

	b->count++;
	TAILQ_REMOVE(&b->ages, p, age);
	TAILQ_INSERT_TAIL(&b->ages, p, age);
	p->wrong -= forgotten < p->wrong ? (unsigned)forgotten : p->wrong;
	/* what is left of the ten seconds counts on */
	p->since = p->wrong > 0 ? p->since + forgotten * BACKOFF_FORGIVE_MS : now_ms;
	*news = p->wrong == BACKOFF_FREE;
	if (p->wrong < BACKOFF_FREE) {
		p->wrong++;
		return 0;
	}
	for (unsigned i = BACKOFF_FREE; i < p->wrong && wait < BACKOFF_MOST_MS; i++)
		wait *= 2;
	if (wait < BACKOFF_MOST_MS)
		p->wrong++;
	return wait;
}
