#include "supervisor/status/events.h"

#include <errno.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/http/http_server.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/event_ring.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum {
	RECORD_VERSION = 1,
	STILL_MAX = 2, /* halves of STEPD_BODY_TIMEOUT without a byte taken, while some wait */
};

static const char start_key[] = "start";

struct listener {
	LIST_ENTRY(listener) link;
	struct events *events;
	struct session *session;
	struct http_request *http;
	uint64_t after; /* the newest id that was written */
	bool present;	/* the present state is to be written first */
	uint64_t taken; /* when last looked at */
	unsigned still;
};

struct events {
	struct stepd *stepd;
	struct event *look, *heartbeat, *patience;
	uint64_t start; /* number of this start */
	bool kept;	/* the store holds it */
	bool keeping;
	uint64_t last; /* id */
	LIST_HEAD(, listener) listeners;
	size_t listener_count;
	bool stopped;
};

size_t
events_listeners(const struct stepd *s)
{
	return s->events != NULL ? s->events->listener_count : 0;
}

/* Takes it off the list; its request is the caller's to end. */
static struct http_request *
release(struct listener *l)
{
	struct http_request *http = l->http;

	LIST_REMOVE(l, link);
	l->events->listener_count--;
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

	if (!l->events->kept)
		return;
	if (l->present && (error = write_present(l)) == 0)
		l->present = false;
	if (error == 0 && (l->after < ring->lost || l->after > l->events->last) &&
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

static void
pump_all(struct events *e, const struct session *s)
{
	struct listener *l, *next;

	for (l = LIST_FIRST(&e->listeners); l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (s == NULL || l->session == s)
			pump(l);
	}
}

static void
tell(struct session *s, struct told *told)
{
	struct events *e = s->stepd->events;

	told->id = ++e->last;
	told->at = (int64_t)time(NULL);
	told->step = s->record.step;
	event_ring_add(&s->events, told);
	pump_all(e, s);
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
	struct events *e = s->stepd->events;
	struct listener *l, *next;

	for (l = e != NULL ? LIST_FIRST(&e->listeners) : NULL; l != NULL; l = next) {
		next = LIST_NEXT(l, link);
		if (l->session == s)
			end(l);
	}
	event_ring_fini(&s->events);
}

static void
on_kept(void *ctx, int error)
{
	struct stepd *s = ctx;

	if (s->events == NULL)
		return;
	s->events->keeping = false;
	s->events->kept = error == 0;
	pump_all(s->events, NULL);
}

static void
keep_start(struct events *e)
{
	uint8_t record[16];
	struct wire_put w;
	struct store_write write = {STORE_META, start_key, sizeof(start_key) - 1, record, 0};

	wire_put_init(&w, record, sizeof(record));
	wire_put_u8(&w, RECORD_VERSION);
	wire_put_u64(&w, e->start);
	write.len = w.len;
	e->keeping = store_commit(e->stepd->store, &write, 1, on_kept, e->stepd) == 0;
}

/* The number of the start before. 0, or -errno where the record cannot be read. */
static int
read_start(struct stepd *s, uint64_t *start)
{
	struct wire_get r;
	size_t len;
	void *data;
	int error = store_get(s->store, STORE_META, start_key, sizeof(start_key) - 1, &data, &len);

	*start = 0;
	if (error != 0)
		return error == -ENOENT ? 0 : error;
	wire_get_init(&r, data, len);
	if (wire_get_u8(&r) != RECORD_VERSION)
		error = -EPROTO;
	*start = wire_get_u64(&r);
	if (error == 0)
		error = wire_get_end(&r);
	free(data);
	return error;
}

/* Proxies and peers see that there is life. */
static void
on_heartbeat(evutil_socket_t fd, short what, void *arg)
{
	struct events *e = arg;
	struct listener *l;

	(void)fd;
	(void)what;
	if (!e->kept && !e->keeping)
		keep_start(e);
	LIST_FOREACH(l, &e->listeners, link)
	http_stream_write(l->http, ":\n\n", 3);
}

/* Who takes nothing any more is cut, as any client that reads an answer is. */
static void
on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct events *e = arg;
	struct listener *l, *next;

	(void)fd;
	(void)what;
	for (l = LIST_FIRST(&e->listeners); l != NULL; l = next) {
		uint64_t taken = http_stream_taken(l->http);

		next = LIST_NEXT(l, link);
		l->still = http_stream_waits(l->http) && taken == l->taken ? l->still + 1 : 0;
		l->taken = taken;
		if (l->still >= STILL_MAX)
			http_stream_cut(l->http);
	}
}

int
events_start(struct stepd *s)
{
	struct timeval interval = {.tv_sec = EVENTS_HEARTBEAT_SECONDS};
	suseconds_t half = (suseconds_t)(s->config->body_timeout % STILL_MAX) * 1000000 / STILL_MAX;
	struct timeval patience = {(time_t)s->config->body_timeout / STILL_MAX, half};
	struct events *e = s->events = calloc(1, sizeof(*e));
	uint64_t before;
	int error;

	if (e == NULL)
		return -ENOMEM;
	e->stepd = s;
	LIST_INIT(&e->listeners);
	e->look = event_new(s->base, -1, EV_TIMEOUT, on_look, e);
	e->heartbeat = event_new(s->base, -1, EV_PERSIST, on_heartbeat, e);
	e->patience = event_new(s->base, -1, EV_PERSIST, on_patience, e);
	if (e->look == NULL || e->heartbeat == NULL || e->patience == NULL ||
	    event_add(e->heartbeat, &interval) != 0 || event_add(e->patience, &patience) != 0)
		return -ENOMEM;
	error = read_start(s, &before);
	if (error != 0)
		return error;
	e->start = before + 1;
	e->last = e->start * EVENTS_PER_START;
	for (struct session *at = s->sessions->first; at != NULL; at = at->next)
		at->events.lost = e->last;
	keep_start(e);
	events_look(s);
	return 0;
}

bool
events_stop(struct stepd *s)
{
	struct events *e = s->events;

	if (e == NULL)
		return true;
	e->stopped = true;
	while (!LIST_EMPTY(&e->listeners))
		end(LIST_FIRST(&e->listeners));
	return true;
}

void
events_free(struct stepd *s)
{
	struct events *e = s->events;

	if (e == NULL)
		return;
	events_stop(s);
	if (e->look != NULL)
		event_free(e->look);
	if (e->heartbeat != NULL)
		event_free(e->heartbeat);
	if (e->patience != NULL)
		event_free(e->patience);
	free(e);
	s->events = NULL;
}

/* Connections that listen never end by themselves: they leave others to those who train. */
static bool
is_full(const struct events *e)
{
	struct http_counts counts;

	http_server_counts(e->stepd->http, &counts);
	return e->listener_count >= EVENTS_LISTENERS_MAX || e->listener_count >= counts.limit / 2;
}

void
events_listen(struct session *s, struct http_request *r, const uint64_t *after)
{
	static const char hello[] = "retry: 2000\n\n";
	struct events *e = s->stepd->events;
	struct listener *l;

	if (e == NULL || e->stopped || is_full(e)) {
		http_add_header(r, "Retry-After", "5");
		http_reply_detail(r, 503, "too many listen to events now");
		return;
	}
	look_at(s); /* so that what it is now is not told as news after the present state */
	if (is_over(s) && after != NULL && *after <= e->last && *after >= s->events.lost &&
	    event_ring_after(&s->events, *after) == NULL) {
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
	*l = (struct listener){.events = e, .session = s, .http = r, .present = after == NULL};
	if (after != NULL)
		l->after = *after;
	LIST_INSERT_HEAD(&e->listeners, l, link);
	e->listener_count++;
	http_set_data(r, l);
	http_on_gone(r, on_gone);
	http_stream_write(r, hello, sizeof(hello) - 1);
	pump(l);
}
