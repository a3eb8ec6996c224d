/*
 * Who listens to the events of sessions: each listener is an answer under way and a place in the
 * ring of its session (event_ring.h). A slow one is sent what the ring still has when it has taken
 * the rest, told by an event `gap` where the ring does not have it any more, and cut when it takes
 * nothing at all.
 */
#ifndef SUPERVISOR_STATUS_EVENT_LISTENERS_H
#define SUPERVISOR_STATUS_EVENT_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct event;
struct event_ids;
struct http_request;
struct listener;
struct session;
struct stepd;

enum { EVENTS_LISTENERS_MAX = 64 };

struct event_listeners {
	struct stepd *stepd;
	const struct event_ids *ids; /* nothing is written before they are kept */
	struct event *patience;	     /* looks for those that take nothing */
	LIST_HEAD(, listener) all;
	size_t count;
	bool stopped; /* nobody is let in any more */
};

/* On storage of zeros; ids live as long as the listeners. 0 or -ENOMEM. */
int event_listeners_init(
    struct event_listeners *all, struct stepd *stepd, const struct event_ids *ids);
/* Ends all answers. A half-made one is allowed. */
void event_listeners_fini(struct event_listeners *all);

/* Answers the request by what comes after that id, as events_listen says (events.h); consumes it.
   Too many listeners, or out of memory: 503. */
void event_listeners_add(
    struct event_listeners *all, struct session *s, struct http_request *r, const uint64_t *after);
/* Writes what there is for those of the session, or for all (NULL), as far as each has room. */
void event_listeners_pump(struct event_listeners *all, const struct session *s);
/* A sign of life to each, for proxies and peers. */
void event_listeners_heartbeat(struct event_listeners *all);
/* Ends the answers of those of the session, or of all (NULL). */
void event_listeners_end(struct event_listeners *all, const struct session *s);

#endif
