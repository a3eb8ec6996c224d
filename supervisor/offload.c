#include "supervisor/offload.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include <event2/event.h>

#include "supervisor/thread.h"

struct offload {
	LIST_ENTRY(offload) link;
	pthread_t thread;
	struct event *ended;
	int fd; /* an eventfd */
	int (*work)(void *arg);
	void (*done)(void *arg, int result);
	void *arg;
	int result;
};

static LIST_HEAD(, offload) running = LIST_HEAD_INITIALIZER(running);

static void *
run(void *arg)
{
	struct offload *o = arg;

	o->result = o->work(o->arg);
	eventfd_write(o->fd, 1);
	return NULL;
}

/* Joins and forgets; the thread has ended or is about to. */
static void
end(struct offload *o)
{
	void (*done)(void *arg, int result) = o->done;
	void *arg = o->arg;
	int result;

	pthread_join(o->thread, NULL);
	result = o->result;
	LIST_REMOVE(o, link);
	event_free(o->ended);
	close(o->fd);
	free(o);
	done(arg, result);
}

static void
on_ended(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end(arg);
}

/* Without a thread: the loop waits for it. */
struct later {
	void (*done)(void *arg, int result);
	void *arg;
	int result;
};

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
	struct later *l = arg, copy = *l;

	(void)fd;
	(void)what;
	free(l);
	copy.done(copy.arg, copy.result);
}

static void
run_here(
    struct event_base *base, int (*work)(void *arg), void (*done)(void *arg, int result), void *arg)
{
	struct timeval now = {0};
	struct later *l = malloc(sizeof(*l));
	int result = work(arg);

	if (l != NULL) {
		*l = (struct later){done, arg, result};
		if (event_base_once(base, -1, EV_TIMEOUT, on_later, l, &now) == 0)
			return;
		free(l);
	}
	done(arg, result);
}

void
offload_start(
    struct event_base *base, int (*work)(void *arg), void (*done)(void *arg, int result), void *arg)
{
	struct offload *o = calloc(1, sizeof(*o));

	if (o != NULL) {
		o->work = work;
		o->done = done;
		o->arg = arg;
		o->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		o->ended = o->fd >= 0 ? event_new(base, o->fd, EV_READ, on_ended, o) : NULL;
		if (o->ended != NULL && event_add(o->ended, NULL) == 0 &&
		    thread_start(&o->thread, run, o) == 0) {
			LIST_INSERT_HEAD(&running, o, link);
			return;
		}
		if (o->ended != NULL)
			event_free(o->ended);
		if (o->fd >= 0)
			close(o->fd);
		free(o);
	}
	run_here(base, work, done, arg);
}

void
offload_finish(void)
{
	while (!LIST_EMPTY(&running))
		end(LIST_FIRST(&running));
}
