#include "supervisor/status/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/listener.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "ipc/unix_path.h"
#include "supervisor/offload.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/status_peer.h"
#include "supervisor/status/status_write.h"
#include "supervisor/stepd.h"

enum {
	PEERS_MAX = 16,
	BACKLOG = 64,
	READ_SECONDS = 1, /* that the thread may take before it is answered without */
	PEER_SECONDS = 5, /* to take the document */
	ACCEPT_PAUSE_MILLISECONDS = 200,
};

/* One that asked: waits for the facts, then takes the document. */
struct peer {
	TAILQ_ENTRY(peer) link;
	struct status *status;
	struct bufferevent *bev;
	struct event timer;
	bool answered;
};

struct status {
	struct stepd *stepd;
	struct evconnlistener *listener;
	struct event *retry;
	char path[PATH_MAX];
	ino_t inode; /* of the socket: another one by that name is not ours to remove */
	double started;
	TAILQ_HEAD(, peer) peers;
	size_t peer_count;
	struct status_facts *reading; /* with the thread, or NULL */
};

static void
peer_free(struct peer *p)
{
	event_del(&p->timer);
	bufferevent_free(p->bev);
	TAILQ_REMOVE(&p->status->peers, p, link);
	p->status->peer_count--;
	free(p);
}

static void
on_written(struct bufferevent *bev, void *arg)
{
	struct peer *p = arg;

	(void)bev;
	if (p->answered)
		peer_free(p);
}

static void
on_peer_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	peer_free(arg);
}

static void
answer(struct peer *p, const char *text, size_t len)
{
	struct timeval deadline = {.tv_sec = PEER_SECONDS};

	p->answered = true;
	evtimer_add(&p->timer, &deadline);
	if (bufferevent_write(p->bev, text, len) != 0 || bufferevent_write(p->bev, "\n", 1) != 0)
		peer_free(p);
}

/* The same document for all who wait. facts may be NULL. */
static void
answer_all(struct status *s, const struct status_facts *facts)
{
	struct peer *p, *next;
	struct json_writer w;
	const char *text;
	size_t len = 0;

	json_writer_init(&w);
	status_write(s->stepd, facts, s->started, &w);
	text = json_writer_text(&w, &len);
	for (p = TAILQ_FIRST(&s->peers); p != NULL; p = next) {
		next = TAILQ_NEXT(p, link);
		if (p->answered)
			continue;
		if (text != NULL)
			answer(p, text, len);
		else
			peer_free(p);
	}
	json_writer_fini(&w);
}

static int
read_facts(void *arg)
{
	status_facts_read(arg, "");
	return 0;
}

/* stepd may have freed its status meanwhile: at its end the thread is waited for. */
static void
on_facts(void *arg, int result)
{
	struct status_facts *facts = arg;
	struct status *s = facts->owner;

	(void)result;
	if (s != NULL) {
		s->reading = NULL;
		answer_all(s, facts);
	}
	free(facts);
}

/* One thread at a time, whoever asks meanwhile is answered with what it finds. */
static void
begin_reading(struct status *s)
{
	struct status_facts *facts;

	if (s->reading != NULL)
		return;
	facts = calloc(1, sizeof(*facts));
	if (facts == NULL)
		return; /* the timer of who asked answers without */
	facts->owner = s;
	snprintf(facts->state_dir, sizeof(facts->state_dir), "%s", s->stepd->config->state_dir);
	for (struct session *at = s->stepd->sessions->first; at != NULL; at = at->next) {
		if (at->child != NULL && facts->worker_count < SLOTS_MAX)
			facts->workers[facts->worker_count++] = child_pid(at->child);
	}
	s->reading = facts;
	offload_start(s->stepd->base, read_facts, on_facts, facts);
}

static void
on_peer_timer(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = arg;

	(void)fd;
	(void)what;
	if (p->answered)
		peer_free(p); /* it does not read */
	else
		answer_all(p->status, NULL);
}

/* Consumes fd. */
static void
turn_away(int fd)
{
	static const char refused[] =
	    "{\"detail\":\"only root, the user of stepd and its group may ask\"}\n";

	if (send(fd, refused, sizeof(refused) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("the status socket: %s", strerror(errno));
	close(fd);
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int len,
    void *arg)
{
	struct timeval patience = {.tv_sec = READ_SECONDS};
	struct status *s = arg;
	struct peer *p;

	(void)listener;
	(void)address;
	(void)len;
	if (!status_peer_may_ask(fd)) {
		turn_away(fd);
		return;
	}
	if (s->peer_count >= PEERS_MAX)
		peer_free(TAILQ_FIRST(&s->peers));
	p = calloc(1, sizeof(*p));
	if (p != NULL)
		p->bev = bufferevent_socket_new(s->stepd->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (p == NULL || p->bev == NULL) {
		free(p);
		close(fd);
		return;
	}
	p->status = s;
	evtimer_assign(&p->timer, s->stepd->base, on_peer_timer, p);
	TAILQ_INSERT_TAIL(&s->peers, p, link);
	s->peer_count++;
	bufferevent_setcb(p->bev, NULL, on_written, on_peer_event, p);
	evtimer_add(&p->timer, &patience);
	begin_reading(s);
}

/* Out of descriptors, most likely: asking again at once would only spin. */
static void
on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MILLISECONDS * 1000};
	struct status *s = arg;

	evconnlistener_disable(listener);
	event_add(s->retry, &pause);
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct status *s = arg;

	(void)fd;
	(void)what;
	evconnlistener_enable(s->listener);
}

static int
start_listening(struct status *s)
{
	unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC;
	struct stat st;
	int fd = status_peer_listen(s->path);

	if (fd < 0)
		return fd;
	s->inode = lstat(s->path, &st) == 0 ? st.st_ino : 0;
	s->listener = evconnlistener_new(s->stepd->base, on_accept, s, flags, BACKLOG, fd);
	if (s->listener == NULL) {
		close(fd);
		return -ENOMEM;
	}
	evconnlistener_set_error_cb(s->listener, on_accept_error);
	return 0;
}

int
status_check(const struct config *c, char reason[512])
{
	const char *path = c->status_socket;
	struct unix_path u;
	int error;

	if (path == NULL || strcmp(path, "off") == 0)
		return 0;
	error = path[strlen(path) - 1] == '/' ? -EISDIR : unix_path_init(&u, path);
	if (error == 0) {
		unix_path_fini(&u);
		return 0;
	}
	snprintf(reason, 512, "STEPD_STATUS_SOCKET is \"%.300s\": %s", path, strerror(-error));
	return -EINVAL;
}

int
status_start(struct stepd *stepd)
{
	const char *path = stepd->config->status_socket;
	struct status *s;
	int error, n;

	if (path != NULL && strcmp(path, "off") == 0)
		return 0;
	s = stepd->status = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->stepd = stepd;
	s->started = monotonic_seconds();
	TAILQ_INIT(&s->peers);
	n = path != NULL
		? snprintf(s->path, sizeof(s->path), "%s", path)
		: snprintf(s->path, sizeof(s->path), "%s/" STATUS_SOCKET, stepd->config->state_dir);
	s->retry = evtimer_new(stepd->base, on_retry, s);
	error = n >= (int)sizeof(s->path) ? -ENAMETOOLONG : 0;
	if (error == 0)
		error = s->retry == NULL ? -ENOMEM : start_listening(s);
	if (error == 0)
		return 0;
	/* Not every file system takes sockets; training does not need this one. */
	log_warning("the status socket %s: %s", s->path,
	    error == -EADDRINUSE ? "somebody else uses it" : strerror(-error));
	return path != NULL ? error : 0;
}

void
status_free(struct stepd *stepd)
{
	struct status *s = stepd->status;
	struct stat st;

	if (s == NULL)
		return;
	while (!TAILQ_EMPTY(&s->peers))
		peer_free(TAILQ_FIRST(&s->peers));
	if (s->listener != NULL && lstat(s->path, &st) == 0 && st.st_ino == s->inode)
		unlink(s->path);
	if (s->listener != NULL)
		evconnlistener_free(s->listener);
	if (s->retry != NULL)
		event_free(s->retry);
	if (s->reading != NULL)
		s->reading->owner = NULL;
	free(s);
	stepd->status = NULL;
}
