/*
 * GET /v1/sessions/{id}/events: what happens to a session, told to those who listen, as server-sent
 * events. Events are numbered over restarts (event_ids.h) and kept in a ring per session
 * (event_ring.h), in which each listener has its place (event_listeners.h). Rings are memory: what
 * was told before a restart is a gap after it.
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

enum { EVENTS_HEARTBEAT_SECONDS = 15 };

/* A part of the program (stepd.h), after the sessions and before the HTTP server. */
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
/* How many listen now. */
size_t events_listeners(const struct stepd *s);

#endif
