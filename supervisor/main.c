/* stepd: reads its settings, starts its parts, runs the event loop, stops them. */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/api/operations.h"
#include "supervisor/settings/config.h"
#include "supervisor/signals.h"
#include "supervisor/store/objects.h"
#include "supervisor/store/store.h"
#include "supervisor/cgroup.h"
#include "supervisor/credentials.h"
#include "supervisor/notify.h"
#include "supervisor/privileges.h"
#include "supervisor/serve.h"
#include "supervisor/session/child_exec.h"
#include "supervisor/session/devices.h"
#include "supervisor/session/devices_again.h"
#include "supervisor/session/sessions.h"
#include "supervisor/state.h"
#include "supervisor/status/events.h"
#include "supervisor/status/status.h"
#include "supervisor/stepd.h"
#include "supervisor/transfer/transfer.h"

enum { EXIT_USAGE = 2, STOP_POLL_MILLISECONDS = 50, HURRY_SECONDS = 1 };

extern char **environ;

static const struct stepd_part parts[] = {
    {"store", store_start, NULL, store_free},
    {"objects", objects_start, NULL, objects_free},
    {"transfer", transfer_start, NULL, transfer_free},
    {"devices", devices_start, devices_stop, devices_free},
    {"sessions", sessions_start, sessions_stop, sessions_free},
    {"operations", operations_start, operations_stop, operations_free},
    {"events", events_start, events_stop, events_free},
    {"status", status_start, NULL, status_free},
    {"http", serve_start, serve_stop, serve_free},
    {"notify", notify_start, notify_stop, notify_free},
};

enum { PART_COUNT = sizeof(parts) / sizeof(parts[0]) };

static struct event stop_timer;

static void
usage(FILE *out)
{
	fputs("usage: stepd [--check | --help [--markdown] | --version [--json]]\n\n"
	      "Serves LoRA training, one optimizer step per request. Settings come from the\n"
	      "environment:\n\n",
	    out);
	config_help(out, false);
	fputs("\nExit status: 0 stopped as asked, 1 failed, 2 wrong settings or usage.\n", out);
}

static void
check_stopped(struct stepd *s)
{
	bool done = !s->hurrying || serve_stop(s);

	for (size_t i = PART_COUNT; !s->hurrying && i-- > 0;)
		if (parts[i].stop != NULL && !parts[i].stop(s))
			done = false;
	if (done)
		event_base_loopexit(s->base, NULL);
}

void
stepd_stopped(struct stepd *s)
{
	if (s->stopping)
		check_stopped(s);
}

/* Whoever waits is told, and has a moment to take it. */
static void
hurry(struct stepd *s)
{
	if (s->hurrying) {
		event_base_loopexit(s->base, NULL);
		return;
	}
	s->hurrying = true;
	s->stop_deadline = monotonic_seconds() + HURRY_SECONDS;
	serve_hurry(s);
	check_stopped(s);
}

static void
on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
	struct stepd *s = arg;

	(void)fd;
	(void)what;
	if (monotonic_seconds() > s->stop_deadline) {
		if (!s->hurrying)
			log_warning("stopping without those who did not finish in time");
		hurry(s);
		return;
	}
	check_stopped(s);
}

static void
stop(struct stepd *s, int number)
{
	struct timeval poll = {.tv_usec = STOP_POLL_MILLISECONDS * 1000};

	if (s->stopping) {
		log_warning("%s again: stopping at once", strsignal(number));
		hurry(s);
		return;
	}
	log_info("%s: stopping", strsignal(number));
	s->stopping = true;
	s->stop_deadline = monotonic_seconds() + (double)s->config->stop_timeout;
	event_assign(&stop_timer, s->base, -1, EV_PERSIST, on_stop_timer, s);
	if (event_add(&stop_timer, &poll) != 0) {
		/* What was acknowledged is on the disk; a stop that nothing ends is worse. */
		log_error("no memory for a deadline: stopping at once");
		event_base_loopbreak(s->base);
		return;
	}
	check_stopped(s);
}

/* Not a stop: whoever rotates a token or a certificate, or puts a GPU in, says so by SIGHUP. */
static void
reload(struct stepd *s)
{
	if (s->stopping || s->http == NULL)
		return;
	notify_reloading(s);
	credentials_reload(s);
	devices_look_again(s, DEVICES_ASKED);
	notify_reloaded(s);
}

static void
on_signal(void *arg, int number)
{
	if (number == SIGHUP)
		reload(arg);
	else
		stop(arg, number);
}

/* Starts every part and runs the loop until it is told to stop. */
static int
run_parts(struct stepd *s)
{
	struct signals *signals;
	size_t started = 0;
	int rc = signals_open(&signals, s->base, on_signal, s);

	if (rc != 0)
		log_error("signals: %s", strerror(-rc));
	while (rc == 0 && started < PART_COUNT) {
		rc = parts[started].start(s);
		if (rc != 0)
			log_error("%s did not start: %s", parts[started].name, strerror(-rc));
		started++;
	}
	if (rc == 0 && event_base_dispatch(s->base) < 0)
		rc = -EIO;
	if (s->stopping)
		event_del(&stop_timer);
	while (started-- > 0)
		parts[started].free(s);
	signals_close(signals);
	return rc;
}

/* For workers, a group each. */
static void
claim_group(const struct config *c)
{
	int error = cgroup_claim();

	if (error == 0)
		log_info("workers have a control group each");
	else if (c->worker_memory > 0)
		log_warning("workers have no control group each (%s): STEPD_WORKER_MEMORY is kept "
			    "by RLIMIT_DATA, which counts private memory alone",
		    error == -EPERM	? "stepd's is not delegated to it"
		    : error == -ENOENT	? "no group of version 2 has the memory of stepd"
		    : error == -ENOTSUP ? "stepd's has no memory controller"
					: strerror(-error));
}

static int
run(const struct config *c)
{
	struct stepd s = {.config = c, .state_fd = -1};
	int rc;

	signal(SIGPIPE, SIG_IGN);
	rc = child_exec_check();
	if (rc != 0) {
		log_error(
		    "this kernel has no pidfd_open or no close_range (%s): stepd needs Linux 5.9 "
		    "or newer",
		    strerror(-rc));
		return 1;
	}
	/* first of all: a descriptor that was not handed over shall not be one of ours */
	if (serve_listen(&s) != 0)
		return 1;
	s.state_fd = state_open(c->state_dir);
	if (s.state_fd < 0) {
		log_error("state folder %s: %s", c->state_dir,
		    s.state_fd == -EBUSY ? "another stepd uses it" : strerror(-s.state_fd));
		return 1;
	}
	claim_group(c);
	privileges_drop(c);
	for (size_t i = 0; config_without_effect(environ, i) != NULL; i++)
		log_warning("%s is set, but has no effect in this version",
		    config_without_effect(environ, i));
	s.base = event_base_new();
	if (s.base == NULL)
		log_error("no memory for the event loop");
	rc = s.base != NULL ? run_parts(&s) : -ENOMEM;
	if (s.base != NULL)
		event_base_free(s.base);
	while (s.listen_count > 0) /* the server never started */
		close(s.listen_fds[--s.listen_count]);
	close(s.state_fd);
	if (rc == 0)
		log_info("stopped");
	return rc == 0 ? 0 : 1;
}

static enum log_level
chosen_level(const struct config *c)
{
	switch (*c->log_level) {
	case 'e':
		return LOG_ERROR_LEVEL;
	case 'w':
		return LOG_WARNING_LEVEL;
	case 'd':
		return LOG_DEBUG_LEVEL;
	default:
		return LOG_INFO_LEVEL;
	}
}

/* With the settings read and judged: checks only, or runs. */
static int
with_settings(bool check)
{
	char error[CONFIG_ERROR_MAX], reason[512];
	struct config c;
	int rc;

	rc = config_load(&c, environ, error);
	if (rc == 0 && (serve_check(&c, reason) != 0 || transfer_check(&c, reason) != 0 ||
			   status_check(&c, reason) != 0)) {
		snprintf(error, sizeof(error), "%s", reason);
		rc = -EINVAL;
	}
	if (rc != 0) {
		for (char *rest = error, *line; (line = strsep(&rest, "\n")) != NULL;)
			fprintf(stderr, "stepd: %s\n", line);
		rc = EXIT_USAGE;
	} else if (check) {
		config_print(&c, stdout);
	} else {
		log_open("stepd", chosen_level(&c));
		rc = run(&c);
	}
	config_fini(&c);
	return rc;
}

int
main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "", *option = argc > 2 ? argv[2] : "";

	if (sodium_init() < 0) {
		fputs("stepd: libsodium does not start\n", stderr);
		return 1;
	}
	if (argc == 1)
		return with_settings(false);
	if (argc == 2 && strcmp(verb, "--check") == 0)
		return with_settings(true);
	if (argc == 2 && strcmp(verb, "--help") == 0)
		usage(stdout);
	else if (argc == 3 && strcmp(verb, "--help") == 0 && strcmp(option, "--markdown") == 0)
		config_help(stdout, true);
	else if (argc == 2 && strcmp(verb, "--version") == 0)
		printf("stepd %s\n", STEPD_VERSION);
	else if (argc == 3 && strcmp(verb, "--version") == 0 && strcmp(option, "--json") == 0)
		printf("{\"program\":\"stepd\",\"version\":\"%s\"}\n", STEPD_VERSION);
	else {
		fputs(
		    "usage: stepd [--check | --help [--markdown] | --version [--json]]\n", stderr);
		return EXIT_USAGE;
	}
	return 0;
}
