#include "supervisor/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <event2/event.h>

struct signals {
	int fd;
	struct event *readable;
	void (*told)(void *ctx, int number);
	void *ctx;
};

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct signalfd_siginfo info;
	struct signals *s = arg;

	(void)what;
	if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->told(s->ctx, (int)info.ssi_signo);
}

int
signals_open(
    struct signals **out, struct event_base *base, void (*told)(void *ctx, int number), void *ctx)
{
	struct signals *s = calloc(1, sizeof(*s));
	sigset_t set;
	int error = -ENOMEM;

	*out = NULL;
	if (s == NULL)
		return error;
	s->told = told;
	s->ctx = ctx;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0) {
		error = -errno;
		goto fail;
	}
	s->readable = event_new(base, s->fd, EV_READ | EV_PERSIST, on_readable, s);
	if (s->readable == NULL || event_add(s->readable, NULL) != 0)
		goto fail;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	*out = s;
	return 0;
fail:
	signals_close(s);
	return error;
}

void
signals_close(struct signals *s)
{
	if (s == NULL)
		return;
	if (s->readable != NULL)
		event_free(s->readable);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}
