/*
 * The ids of events: <start>*EVENTS_PER_START + n, of the number of this start of stepd, which the
 * store keeps, and a counter within it. So they grow over restarts, as long as none is told before
 * the store holds the number of the start.
 */
#ifndef SUPERVISOR_STATUS_EVENT_IDS_H
#define SUPERVISOR_STATUS_EVENT_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct store;

#define EVENTS_PER_START UINT64_C(1000000000)

struct event_ids {
	uint64_t start; /* number of this start */
	uint64_t last;	/* the newest id that was taken */
	bool kept;	/* the store holds start: ids may be told */
	bool keeping;	/* start is on its way there */
};

/* Numbers this start: one more than the store holds. 0, or -errno where its record cannot be read:
   -EPROTO (a newer stepd wrote it), -EBADMSG, or of the store. */
int event_ids_init(struct event_ids *ids, struct store *store);
/* Writes the number into the store, in the background; done(ctx, error) hands the outcome to
   event_ids_kept, unless the ids are gone by then. Nothing happens where it is kept or on its way;
   where it could not be written, the next call tries again. */
void event_ids_keep(
    struct event_ids *ids, struct store *store, void (*done)(void *ctx, int error), void *ctx);
void event_ids_kept(struct event_ids *ids, int error);

#endif
