#include "worker/text/datum_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/text/render.h"

/* Open addressing over pointers: a datum keeps its place in memory. */
struct datum_store {
	struct datum **slots;
	size_t size, count; /* size: a power of two */
};

enum { FIRST_SIZE = 64 };

int
datum_store_new(struct datum_store **out)
{
	struct datum_store *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	s->size = FIRST_SIZE;
	s->slots = calloc(s->size, sizeof(*s->slots));
	if (s->slots == NULL) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void
datum_store_free(struct datum_store *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i] != NULL) {
			datum_fini(s->slots[i]);
			free(s->slots[i]);
		}
	free(s->slots);
	free(s);
}

/* Ids are digests, but those asked for come from clients: all of the text counts. */
static size_t
slot_of(struct datum *const *slots, size_t size, const char *id)
{
	uint64_t h = 0xcbf29ce484222325u;
	size_t at;

	for (const char *c = id; *c != '\0'; c++)
		h = (h ^ (unsigned char)*c) * 0x100000001b3u;
	at = (size_t)(h ^ h >> 29) & (size - 1);
	while (slots[at] != NULL && strcmp(slots[at]->id, id) != 0)
		at = (at + 1) & (size - 1);
	return at;
}

static int
grow(struct datum_store *s)
{
	struct datum **slots = calloc(s->size * 2, sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i] != NULL)
			slots[slot_of(slots, s->size * 2, s->slots[i]->id)] = s->slots[i];
	free(s->slots);
	s->slots = slots;
	s->size *= 2;
	return 0;
}

int
datum_store_add(struct datum_store *s, struct datum *d)
{
	size_t at = slot_of(s->slots, s->size, d->id);
	struct datum *kept = NULL;
	int rc = 0;

	if (s->slots[at] == NULL && s->count * 2 >= s->size) {
		rc = grow(s);
		at = slot_of(s->slots, s->size, d->id);
	}
	if (rc == 0 && s->slots[at] == NULL) {
		kept = malloc(sizeof(*kept));
		rc = kept == NULL ? -ENOMEM : 0;
	}
	if (kept == NULL) {
		datum_fini(d);
		return rc;
	}
	*kept = *d;
	memset(d, 0, sizeof(*d));
	s->slots[at] = kept;
	s->count++;
	return 0;
}

const struct datum *
datum_store_find(const struct datum_store *s, const char *id)
{
	return s->slots[slot_of(s->slots, s->size, id)];
}

size_t
datum_store_count(const struct datum_store *s)
{
	return s->count;
}
