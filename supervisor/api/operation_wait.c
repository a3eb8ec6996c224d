/* Those who wait for an operation: for its 202, or with GET for its answer. */
#include <stdlib.h>

#include "supervisor/api/api_call.h"
#include "supervisor/api/operations.h"

static void
waiter_free(struct operation_waiter *w)
{
	LIST_REMOVE(w, link);
	if (w->timer != NULL)
		event_free(w->timer);
	free(w);
}

/* The reply to somebody who waits, who is gone after it. */
static void
waiter_reply(struct operation_waiter *w)
{
	struct operation *o = w->operation;
	struct http_request *r = w->http;
	bool accepts = w->timer == NULL;

	waiter_free(w);
	http_on_gone(r, NULL);
	if (o->done && !(accepts && o->accepted)) {
		operation_reply_answer(o, r);
		return;
	}
	if (accepts)
		http_add_header(r, "Preference-Applied", "respond-async");
	operation_reply_accepted(o, r);
}

static void
on_waiter_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	waiter_reply(arg);
}

static void
on_waiter_gone(struct http_request *r, void *data)
{
	(void)r;
	waiter_reply(data);
}

void
operation_wait(struct operation *o, struct http_request *r, double seconds)
{
	struct timeval tv = {(time_t)seconds, (suseconds_t)((seconds - (time_t)seconds) * 1e6)};
	struct operation_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	*w = (struct operation_waiter){.operation = o, .http = r};
	LIST_INSERT_HEAD(&o->waiters, w, link);
	if (seconds < 0)
		return;
	w->timer = evtimer_new(o->stepd->base, on_waiter_timer, w);
	if (w->timer == NULL || evtimer_add(w->timer, &tv) != 0) {
		waiter_reply(w);
		return;
	}
	http_set_data(r, w);
	http_on_gone(r, on_waiter_gone);
}

void
operation_wake(struct operation *o)
{
	struct operation_waiter *w;

	while ((w = LIST_FIRST(&o->waiters)) != NULL)
		waiter_reply(w);
}

void
operation_tell_accepted(struct operation *o)
{
	struct operation_waiter *next;

	for (struct operation_waiter *w = LIST_FIRST(&o->waiters); w != NULL; w = next) {
		next = LIST_NEXT(w, link);
		if (w->timer == NULL)
			waiter_reply(w);
	}
}
