/*
 * The newest events of a session, for those who follow it: a ring in memory that grows to
 * EVENTS_KEPT and then forgets the oldest. Numbers of events only grow; a ring knows the newest one
 * that it no longer has, so nobody is led to believe that nothing happened.
 */
#ifndef SUPERVISOR_STATUS_EVENT_RING_H
#define SUPERVISOR_STATUS_EVENT_RING_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/json_write.h"
#include "ipc/message.h"

enum {
	EVENTS_KEPT = 1024,
	EVENTS_KEPT_CLOSED = 16, /* of a session that is closed */
	EVENT_REASON = 64,
};

/* X(NAME, "name on the wire", what it tells) */
#define EVENT_LIST(X)                                                                              \
	X(STEP, "step", "a step is done and kept")                                                 \
	X(SAVE, "save", "an upload holds an artifact")                                             \
	X(RESTART, "restart", "the session was brought back")                                      \
	X(STATE, "state", "loading, ready, restoring, needs_restore or closed from now on")

#define EVENT_ENUM(name, ...) EVENT_##name,
enum event_kind { EVENT_LIST(EVENT_ENUM) };
#undef EVENT_ENUM

struct told {
	uint64_t id;
	int64_t at; /* Unix seconds */
	enum event_kind kind;
	uint64_t step; /* the session's, after it */
	union {
		struct message_trained trained; /* STEP */
		struct {
			uint8_t artifact; /* enum artifact_kind */
			uint8_t sha256[32];
			uint64_t size;
		} save;
		struct {
			const char *class; /* a constant: why there was another worker */
			uint64_t replayed;
			uint64_t resend_to; /* steps up to this one are lost; 0 = none */
		} restart;
		struct {
			const char *state; /* a constant */
			char reason[EVENT_REASON];
		} state;
	};
};

struct event_ring {
	struct told *entries; /* NULL = none yet */
	size_t size, first, count;
	uint64_t lost; /* the newest id that it does not have any more, 0 = it has all */
};

/* Copies it. Without memory it counts as lost. */
void event_ring_add(struct event_ring *ring, const struct told *told);
/* The oldest one with a higher id, a view until the next call, or NULL. */
const struct told *event_ring_after(const struct event_ring *ring, uint64_t id);
/* The id of the newest one, also if it was lost; 0 = there was none. */
uint64_t event_ring_newest(const struct event_ring *ring);
/* Keeps the newest `count`. */
void event_ring_shrink(struct event_ring *ring, size_t count);
void event_ring_fini(struct event_ring *ring);

/* The text of an event on the wire: "id: ...\nevent: ...\ndata: {...}\n\n". To be freed; NULL: no
   memory. */
char *told_text(const struct told *told, size_t *len);

#endif
