/*
 * The datums of a session, by id. They live in memory as long as the session.
 */
#ifndef WORKER_TEXT_DATUM_STORE_H
#define WORKER_TEXT_DATUM_STORE_H

#include <stddef.h>

#include "worker/text/datum.h"

struct datum_store;

/* 0 or -ENOMEM. */
int datum_store_new(struct datum_store **out);
/* Frees the datums too; NULL is allowed. */
void datum_store_free(struct datum_store *s);
/* Takes the datum over, also on failure; one with an id that is there is dropped, as it is the
   same. 0 or -ENOMEM. */
int datum_store_add(struct datum_store *s, struct datum *d);
/* A view that lives as long as the store, or NULL: unknown. */
const struct datum *datum_store_find(const struct datum_store *s, const char *id);
size_t datum_store_count(const struct datum_store *s);

#endif
