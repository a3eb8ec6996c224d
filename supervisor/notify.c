#include "supervisor/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "ipc/wire.h"
#include "supervisor/http/http_server.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum {
	TICK_SECONDS = 5,
	EXTEND_SECONDS = 15, /* told again every EXTEND_AGAIN_SECONDS */
	EXTEND_AGAIN_SECONDS = 3,
	END_SECONDS = 60, /* for what is left when the loop has ended: workers, the store */
	STATUS_MAX = 160,
	RECORD_VERSION = 1,
};

struct notify {
	struct stepd *stepd;
	int fd;
	struct sockaddr_un address;
	socklen_t len;
	struct event *tick, *watchdog;
	double watchdog_seconds; /* 0 = none is wanted */
	double extended;	 /* when that was told last */
	bool asking;		 /* the store, for a record */
	bool proven;		 /* it kept one */
	bool ready, stopping;	 /* told */
	bool stuck;		 /* the store was, when last looked at */
	char status[STATUS_MAX]; /* told */
};

static int say(struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Never waits. 0 or -errno. */
static int
say(struct notify *n, const char *format, ...)
{
	char text[STATUS_MAX + 256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len < 0 || len >= (int)sizeof(text))
		return -EMSGSIZE;
	if (sendto(n->fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT,
		(const struct sockaddr *)&n->address, n->len) >= 0)
		return 0;
	log_debug("telling systemd: %s", strerror(errno));
	return -errno;
}

static void
write_status(const struct notify *n, char out[STATUS_MAX])
{
	const struct slots *slots = &n->stepd->sessions->slots;
	const struct http_server *http = n->stepd->http;
	const char *address = http != NULL ? http_server_address(http, 0) : NULL;
	size_t taken = 0;

	for (size_t i = 0; i < slots->count; i++)
		taken += slots->slots[i].taken;
	snprintf(out, STATUS_MAX, "%s on %s, %zu of %zu slots taken%s",
	    n->stopping ? "stopping" : "listening", address != NULL ? address : "nothing", taken,
	    slots->count, n->stuck ? "; the store does not answer" : "");
}

/* With READY=1, or by itself where it has changed. */
static void
say_status(struct notify *n)
{
	char status[STATUS_MAX];

	write_status(n, status);
	if (n->proven && !n->ready && !n->stopping)
		n->ready = say(n, "READY=1\nSTATUS=%s", status) == 0;
	else if (strcmp(status, n->status) == 0 || say(n, "STATUS=%s", status) != 0)
		return;
	memcpy(n->status, status, sizeof(status));
}

static void
on_record(void *ctx, int error)
{
	struct stepd *s = ctx;

	if (s->notify == NULL)
		return;
	s->notify->asking = false;
	s->notify->proven = error == 0;
	say_status(s->notify);
}

/* That the store works is shown by its keeping something. */
static void
ask_store(struct notify *n)
{
	static const char key[] = "started";
	uint8_t record[16];
	struct wire_put w;
	struct store_write write = {STORE_META, key, sizeof(key) - 1, record, 0};

	wire_put_init(&w, record, sizeof(record));
	wire_put_u8(&w, RECORD_VERSION);
	wire_put_i64(&w, (int64_t)time(NULL));
	write.len = w.len;
	n->asking = store_commit(n->stepd->store, &write, 1, on_record, n->stepd) == 0;
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct notify *n = arg;

	(void)fd;
	(void)what;
	if (!n->proven && !n->asking)
		ask_store(n);
	say_status(n);
}

static void
on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	struct store_facts facts;
	struct notify *n = arg;
	bool stuck;

	(void)fd;
	(void)what;
	store_facts(n->stepd->store, &facts);
	stuck = facts.oldest_seconds > n->watchdog_seconds;
	if (stuck && !n->stuck)
		log_error(
		    "the store has not finished a change for %.0f s: the watchdog is not told "
		    "that all is well",
		    facts.oldest_seconds);
	if (stuck != n->stuck) {
		n->stuck = stuck;
		say_status(n);
	}
	if (!stuck)
		say(n, "WATCHDOG=1");
}

/* "/path" or "@name"; other kinds are for virtual machines. */
static int
take_address(struct notify *n, const char *path)
{
	size_t len = strlen(path);

	if ((*path != '/' && *path != '@') || len >= sizeof(n->address.sun_path))
		return -EINVAL;
	n->address.sun_family = AF_UNIX;
	memcpy(n->address.sun_path, path, len + 1);
	n->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (*path == '@')
		n->address.sun_path[0] = '\0'; /* of the abstract names: no end but its length */
	else
		n->len++;
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return n->fd < 0 ? -errno : 0;
}

/* Seconds between signs of life, 0 = none are wanted of this process. */
static double
watchdog_seconds(void)
{
	const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long microseconds;

	if (interval == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	microseconds = strtoull(interval, NULL, 10);
	return microseconds >= 1000 ? (double)microseconds / 1e6 : 0;
}

static int
add_timer(struct event **out, struct notify *n, event_callback_fn on_time, double seconds)
{
	struct timeval tv = {.tv_sec = (time_t)seconds};

	tv.tv_usec = (suseconds_t)((seconds - (double)tv.tv_sec) * 1e6);
	*out = event_new(n->stepd->base, -1, EV_PERSIST, on_time, n);
	return *out == NULL || event_add(*out, &tv) != 0 ? -ENOMEM : 0;
}

int
notify_start(struct stepd *s)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct notify *n;
	int error;

	if (path == NULL || *path == '\0')
		return 0;
	n = s->notify = calloc(1, sizeof(*n));
	if (n == NULL)
		return -ENOMEM;
	n->stepd = s;
	n->fd = -1;
	error = take_address(n, path);
	if (error != 0) { /* who started it will not be told; that is no reason not to run */
		log_warning("NOTIFY_SOCKET: %s", strerror(-error));
		notify_free(s);
		return 0;
	}
	n->watchdog_seconds = watchdog_seconds();
	error = add_timer(&n->tick, n, on_tick, TICK_SECONDS);
	if (error == 0 && n->watchdog_seconds > 0)
		error = add_timer(&n->watchdog, n, on_watchdog, n->watchdog_seconds / 2);
	if (error == 0)
		ask_store(n);
	return error;
}

/* Asked again and again while parts stop: each time there is a little more time. */
bool
notify_stop(struct stepd *s)
{
	struct notify *n = s->notify;
	double now = monotonic_seconds();
	bool first;

	if (n == NULL || (n->stopping && now - n->extended < EXTEND_AGAIN_SECONDS))
		return true;
	first = !n->stopping;
	n->stopping = true;
	write_status(n, n->status);
	if (say(n, "%sEXTEND_TIMEOUT_USEC=%u\nSTATUS=%s", first ? "STOPPING=1\n" : "",
		EXTEND_SECONDS * 1000000u, n->status) == 0)
		n->extended = now;
	else
		n->stopping = !first;
	return true;
}

void
notify_free(struct stepd *s)
{
	struct notify *n = s->notify;

	if (n == NULL)
		return;
	if (n->stopping)
		say(n, "EXTEND_TIMEOUT_USEC=%u", END_SECONDS * 1000000u);
	if (n->tick != NULL)
		event_free(n->tick);
	if (n->watchdog != NULL)
		event_free(n->watchdog);
	if (n->fd >= 0)
		close(n->fd);
	free(n);
	s->notify = NULL;
}

void
notify_reloading(struct stepd *s)
{
	struct timespec now;

	if (s->notify == NULL || !s->notify->ready)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	say(s->notify, "RELOADING=1\nMONOTONIC_USEC=%llu",
	    (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u);
}

void
notify_reloaded(struct stepd *s)
{
	if (s->notify != NULL && s->notify->ready)
		say(s->notify, "READY=1");
}
