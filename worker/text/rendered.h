/*
 * The blob of MSG_RENDERED: u64 length of the JSON answer, the JSON, then the datums as wire fields
 * (u32 count; each: string id, u32 length, bytes of little-endian int32 ids, bytes of supervised).
 * stepd answers with the JSON and keeps the blob; a new worker is given it again (MSG_DATUMS).
 */
#ifndef WORKER_TEXT_RENDERED_H
#define WORKER_TEXT_RENDERED_H

#include <stddef.h>

#include "ipc/json_write.h"
#include "ipc/refusal.h"
#include "worker/text/bytes.h"
#include "worker/text/datum_store.h"

/* The answer and its datums while they are made. */
struct rendered {
	struct json_writer json;
	struct bytes datums;
	size_t count;
};
void rendered_init(struct rendered *r);
/* Frees what is inside; may be called again. */
void rendered_fini(struct rendered *r);
/* Adds one datum, in the order of the request. Running out of memory sticks. */
void rendered_add(struct rendered *r, const char *example_id, const struct datum *d);
/* A sealed blob of what was added: fd, or -errno. */
int rendered_blob(struct rendered *r, const char *name);

/* Reads the datums of a blob into a store. Bytes are hostile: 0, or -1 with a 422, and the store is
   as it was but for datums that were whole. vocabulary: ids are below it. */
int rendered_read(const void *data, size_t len, size_t vocabulary, struct datum_store *store,
    struct refusal *refusal);

#endif
