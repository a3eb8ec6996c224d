#include "supervisor/status/event_listeners.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "supervisor/http/http_server.h"
#include "supervisor/session/session.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/event_ids.h"
#include "supervisor/status/event_ring.h"
#include "supervisor/stepd.h"

enum { STILL_MAX = 2 }; /* halves of STEPD_BODY_TIMEOUT without a byte taken, while some wait */

struct listener {
	LIST_ENTRY(listener) link;
	struct event_listeners *listeners;
	struct session *session;
	struct http_request *http;
	uint64_t after; /* the newest id that was written */
	bool present;	/* the present state is to be written first */
	uint64_t taken; /* when last looked at */
	unsigned still;
};

/* Takes it off the list; its request is the caller's to end. */
static struct http_request *
release(struct listener *l)
{
	struct http_request *http = l->http;

	LIST_REMOVE(l, link);
	l->listeners->count--;
	free(l);
	return http;
}

static void
on_gone(struct http_request *http, void *data)
{
	(void)http;
	http_stream_end(release(data));
}

static void
end(struct listener *l)
{
	http_on_gone(l->http, NULL);
	http_stream_end(release(l));
}

/* A piece of the stream: 0, or -errno and it is to be tried again when there is room. */
static int
write_text(struct listener *l, char *text, size_t len)
{
	int error = text == NULL ? -ENOMEM : http_stream_write(l->http, text, len);

	free(text);
	return error;
}

/* What it should have been told, and will not be. */
static int
write_gap(struct listener *l)
{
	const struct session *s = l->session;
	char *text;
	int n = asprintf(&text, "id: %llu\nevent: gap\ndata: {\"step\":%llu,\"after\":%llu}\n\n",
	    (unsigned long long)s->events.lost, (unsigned long long)s->record.step,
	    (unsigned long long)l->after);

	return write_text(l, n < 0 ? NULL : text, n < 0 ? 0 : (size_t)n);
}

/* The state that was told last, under the id of what was told last. */
static int
write_present(struct listener *l)
{
	const struct session *s = l->session;
	struct told told = {.id = event_ring_newest(&s->events),
	    .at = (int64_t)time(NULL),
	    .kind = EVENT_STATE,
	    .step = s->record.step,
	    .state.state = s->state_told != NULL ? s->state_told : session_state_name(s->state)};
	size_t len;
	char *text = told_text(&told, &len);
	int error = write_text(l, text, len);

	if (error == 0)
		l->after = told.id;
	return error;
}

/* Closed, and that was told. */
static bool
is_over(const struct session *s)
{
	return s->state == SESSION_CLOSED && s->state_told == session_state_name(SESSION_CLOSED);
}

/* Everything that there is for it, as far as there is room. The listener may be gone afterwards. */
static void
pump(struct listener *l)
{
	const struct event_ring *ring = &l->session->events;
	const struct told *told;
	int error = 0;

	if (!l->listeners->ids->kept)
		return;
	if (l->present && (error = write_present(l)) == 0)
		l->present = false;
	if (error == 0 && (l->after < ring->lost || l->after > l->listeners->ids->last) &&
	    (error = write_gap(l)) == 0)
		l->after = ring->lost;
	while (error == 0 && (told = event_ring_after(ring, l->after)) != NULL) {
		uint64_t id = told->id;
		size_t len;
		char *text = told_text(told, &len);

		error = write_text(l, text, len);
		if (error == 0)
			l->after = id;
	}
	if (error == 0 && is_over(l->session))
		end(l);
}

static void
on_room(struct http_request *http, void *data)
{
	(void)http;
	pump(data);
}

void
event_listeners_pump(struct event_listeners *all, const struct session *s)
{
	struct listener *l, *next;

	for (l = LIST_FIRST(&all->all); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (s == NULL || l->session == s)
			pump(l);
	}
}

void
event_listeners_end(struct event_listeners *all, const struct session *s)
{
	struct listener *l, *next;

	for (l = LIST_FIRST(&all->all); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (s == NULL || l->session == s)
			end(l);
	}
}

void
event_listeners_heartbeat(struct event_listeners *all)
{
	struct listener *l;

	LIST_FOREACH (l, &all->all, link)
		http_stream_write(l->http, ":\n\n", 3);
}

/* Who takes nothing any more is cut, as any client that reads an answer is. */
static void
on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct event_listeners *all = arg;
	struct listener *l, *next;

	(void)fd;
	(void)what;
	for (l = LIST_FIRST(&all->all); l != NULL; l = next) {
		uint64_t taken = http_stream_taken(l->http);

		next = LIST_NEXT(l, link);
		l->still = http_stream_waits(l->http) && taken == l->taken ? l->still + 1 : 0;
		l->taken = taken;
		if (l->still >= STILL_MAX)
			http_stream_cut(l->http);
	}
}

/* Connections that listen never end by themselves: they leave others to those who train. */
static bool
is_full(const struct event_listeners *all)
{
	struct http_counts counts;

	http_server_counts(all->stepd->http, &counts);
	return all->count >= EVENTS_LISTENERS_MAX || all->count >= counts.limit / 2;
}

/* Has it been told everything that there will ever be? */
static bool
has_all(const struct event_listeners *all, const struct session *s, uint64_t after)
{
	return is_over(s) && after <= all->ids->last && after >= s->events.lost &&
	       event_ring_after(&s->events, after) == NULL;
}

void
event_listeners_add(
    struct event_listeners *all, struct session *s, struct http_request *r, const uint64_t *after)
{
	static const char hello[] = "retry: 2000\n\n";
	struct listener *l;

	if (all->stopped || is_full(all)) {
		http_add_header(r, "Retry-After", "5");
		http_reply_detail(r, 503, "too many listen to events now");
		return;
	}
	if (after != NULL && has_all(all, s, *after)) {
		http_reply_empty(r, 204); /* what a browser takes for: do not come again */
		return;
	}
	l = calloc(1, sizeof(*l));
	if (l == NULL) {
		http_reply_detail(r, 503, "stepd has no memory left for a listener");
		return;
	}
	http_add_header(r, "X-Accel-Buffering", "no"); /* for proxies that know it */
	if (!http_stream_begin(r, 200, "text/event-stream", on_room)) {
		free(l);
		return;
	}
	*l = (struct listener){.listeners = all, .session = s, .http = r, .present = after == NULL};
	if (after != NULL)
		l->after = *after;
	LIST_INSERT_HEAD(&all->all, l, link);
	all->count++;
	http_set_data(r, l);
	http_on_gone(r, on_gone);
	http_stream_write(r, hello, sizeof(hello) - 1);
	pump(l);
}

int
event_listeners_init(struct event_listeners *all, struct stepd *stepd, const struct event_ids *ids)
{
	unsigned timeout = stepd->config->body_timeout;
	struct timeval half = {.tv_sec = (time_t)timeout / STILL_MAX,
	    .tv_usec = (suseconds_t)(timeout % STILL_MAX) * 1000000 / STILL_MAX};

	all->stepd = stepd;
	all->ids = ids;
	LIST_INIT(&all->all);
	all->patience = event_new(stepd->base, -1, EV_PERSIST, on_patience, all);
	return all->patience == NULL || event_add(all->patience, &half) != 0 ? -ENOMEM : 0;
}

void
event_listeners_fini(struct event_listeners *all)
{
	event_listeners_end(all, NULL);
	if (all->patience != NULL)
		event_free(all->patience);
	all->patience = NULL;
}
