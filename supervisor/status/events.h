/*
 * GET /v1/sessions/{id}/events: what happens to a session, told to those who listen, as server-sent
 * events. Events are kept in a ring per session (event_ring.h), and a listener is a place in it: a
 * slow one is sent what the ring still has when it has taken the rest, told by an event `gap` where
 * the ring does not have it any more, and cut when it takes nothing at all.
 *
 * Ids are <start>*EVENTS_PER_START + n: the number of this start of stepd, which the store keeps,
 * and a counter within it. So they grow over restarts, and none is given out before the store holds
 * the number of the start. Rings are memory: what was told before a restart is a gap after it.
 *
 * States are told as loading, ready, restoring, needs_restore and closed. A step or a save under
 * way is no state here: the event tells that it is done.
 */
#ifndef SUPERVISOR_STATUS_EVENTS_H
#define SUPERVISOR_STATUS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct message_trained;
struct session;
struct stepd;

enum { EVENTS_LISTENERS_MAX = 64, EVENTS_HEARTBEAT_SECONDS = 15 };
#define EVENTS_PER_START UINT64_C(1000000000)

/* A part of the program (stepd.h), after the sessions. */
int events_start(struct stepd *s);
bool events_stop(struct stepd *s);
void events_free(struct stepd *s);

/* What happened. All do nothing before events_start. */
void events_step(struct session *s, const struct message_trained *trained);
void events_saved(struct session *s, uint64_t size); /* what the record says was saved */
void events_restarted(struct session *s, uint64_t replayed);
/* States may have changed: they are looked at once the loop has done what it is at. */
void events_look(struct stepd *s);
/* The session is going: its listeners' answers end. */
void events_forget(struct session *s);

/* What comes after that id; of NULL, the present state and what comes. Answers the request, at once
   (503: too many listen; 204: the session is closed and there is nothing more) or as a stream. */
void events_listen(struct session *s, struct http_request *r, const uint64_t *after);
size_t events_listeners(const struct stepd *s);

#endif
