#include "supervisor/status/events.h"

#include <errno.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "supervisor/session/sessions.h"
#include "supervisor/status/event_ids.h"
#include "supervisor/status/event_listeners.h"
#include "supervisor/status/event_ring.h"
#include "supervisor/stepd.h"

struct events {
	struct stepd *stepd;
	struct event *look, *heartbeat;
	struct event_ids ids;
	struct event_listeners listeners;
};

size_t
events_listeners(const struct stepd *s)
{
	return s->events != NULL ? s->events->listeners.count : 0;
}

static void
tell(struct session *s, struct told *told)
{
	struct events *e = s->stepd->events;

	told->id = ++e->ids.last;
	told->at = (int64_t)time(NULL);
	told->step = s->record.step;
	event_ring_add(&s->events, told);
	event_listeners_pump(&e->listeners, s);
}

void
events_step(struct session *s, const struct message_trained *trained)
{
	struct told told = {.kind = EVENT_STEP, .trained = *trained};

	if (s->stepd->events != NULL)
		tell(s, &told);
}

void
events_saved(struct session *s, uint64_t size)
{
	struct told told = {
	    .kind = EVENT_SAVE, .save.artifact = s->record.saved_kind, .save.size = size};

	if (s->stepd->events == NULL || sodium_hex2bin(told.save.sha256, sizeof(told.save.sha256),
					    s->record.saved_sha256, 64, NULL, NULL, NULL) != 0)
		return;
	tell(s, &told);
}

void
events_restarted(struct session *s, uint64_t replayed)
{
	struct told told = {.kind = EVENT_RESTART,
	    .restart.class = s->ended != NULL ? s->ended : "stepd_restart",
	    .restart.replayed = replayed,
	    .restart.resend_to = s->restore.resend_to};

	if (s->stepd->events != NULL)
		tell(s, &told);
}

/* The state as it is told, or NULL: as before. */
static const char *
told_state(const struct session *s)
{
	const char *name = session_state_name(s->state);

	if (s->state == SESSION_CLOSED)
		return name;
	/* on the way to be closed, or to have no worker */
	if (strcmp(name, "closed") == 0)
		return NULL;
	return strcmp(name, "training") == 0 || strcmp(name, "saving") == 0 ? "ready" : name;
}

static void
look_at(struct session *s)
{
	const char *state = told_state(s);
	struct told told = {.kind = EVENT_STATE, .state.state = state};

	if (state == NULL || (s->state_told != NULL && strcmp(state, s->state_told) == 0))
		return;
	if (s->state == SESSION_CLOSED && s->state_told == NULL) {
		s->state_told = state; /* since an earlier start: nobody waits for it */
		return;
	}
	s->state_told = state;
	if (strcmp(state, "ready") != 0)
		snprintf(told.state.reason, EVENT_REASON, "%s", s->record.reason);
	tell(s, &told);
	if (s->state == SESSION_CLOSED)
		event_ring_shrink(&s->events, EVENTS_KEPT_CLOSED);
}

static void
on_look(evutil_socket_t fd, short what, void *arg)
{
	struct events *e = arg;

	(void)fd;
	(void)what;
	for (struct session *s = e->stepd->sessions->first; s != NULL; s = s->next)
		look_at(s);
}

void
events_look(struct stepd *s)
{
	if (s->events != NULL)
		event_active(s->events->look, EV_TIMEOUT, 0);
}

void
events_forget(struct session *s)
{
	if (s->stepd->events != NULL)
		event_listeners_end(&s->stepd->events->listeners, s);
	event_ring_fini(&s->events);
}

static void
on_kept(void *ctx, int error)
{
	struct stepd *s = ctx;

	if (s->events == NULL)
		return;
	event_ids_kept(&s->events->ids, error);
	event_listeners_pump(&s->events->listeners, NULL);
}

static void
keep_ids(struct events *e)
{
	event_ids_keep(&e->ids, e->stepd->store, on_kept, e->stepd);
}

static void
on_heartbeat(evutil_socket_t fd, short what, void *arg)
{
	struct events *e = arg;

	(void)fd;
	(void)what;
	keep_ids(e);
	event_listeners_heartbeat(&e->listeners);
}

int
events_start(struct stepd *s)
{
	struct timeval interval = {.tv_sec = EVENTS_HEARTBEAT_SECONDS};
	struct events *e = s->events = calloc(1, sizeof(*e));
	int error;

	if (e == NULL)
		return -ENOMEM;
	e->stepd = s;
	e->look = event_new(s->base, -1, EV_TIMEOUT, on_look, e);
	e->heartbeat = event_new(s->base, -1, EV_PERSIST, on_heartbeat, e);
	if (e->look == NULL || e->heartbeat == NULL || event_add(e->heartbeat, &interval) != 0)
		return -ENOMEM;
	error = event_listeners_init(&e->listeners, s, &e->ids);
	if (error == 0)
		error = event_ids_init(&e->ids, s->store);
	if (error != 0)
		return error;
	for (struct session *at = s->sessions->first; at != NULL; at = at->next)
		at->events.lost = e->ids.last;
	keep_ids(e);
	events_look(s);
	return 0;
}

bool
events_stop(struct stepd *s)
{
	if (s->events != NULL) {
		s->events->listeners.stopped = true;
		event_listeners_end(&s->events->listeners, NULL);
	}
	return true;
}

void
events_free(struct stepd *s)
{
	struct events *e = s->events;

	if (e == NULL)
		return;
	event_listeners_fini(&e->listeners);
	if (e->look != NULL)
		event_free(e->look);
	if (e->heartbeat != NULL)
		event_free(e->heartbeat);
	free(e);
	s->events = NULL;
}

void
events_listen(struct session *s, struct http_request *r, const uint64_t *after)
{
	look_at(s); /* so that what it is now is not told as news after the present state */
	event_listeners_add(&s->stepd->events->listeners, s, r, after);
}
