#include "supervisor/http/http_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/listener.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/http/address.h"
#include "supervisor/http/http_conn.h"

/* Makes room for a new connection. The one goes that is missed least: answered and about to close,
   then those without a token, idle or slow with what they send and take, then idle ones; the
   longest there first. Who has shown a token and is at work stays. */
static bool
make_room(struct http_server *s)
{
	enum { CLOSING, STRANGER, SLOW_STRANGER, TRUSTED, AT_WORK };
	struct http_conn *c, *chosen = NULL;
	int least = AT_WORK;

	for (c = TAILQ_FIRST(&s->conns); c != NULL; c = TAILQ_NEXT(c, link)) {
		int worth = AT_WORK;

		if (c->state == HTTP_LINGER || c->state == HTTP_LATE)
			worth = CLOSING;
		else if (c->state == HTTP_HEAD)
			worth = c->trusted ? TRUSTED : STRANGER;
		else if (c->state != HTTP_HANDLE && !c->trusted)
			worth = SLOW_STRANGER;
		if (worth < least) {
			least = worth;
			chosen = c;
		}
	}
	if (chosen != NULL)
		http_conn_free(chosen);
	return chosen != NULL;
}

/* A line a minute, however many come. */
static void
warn_full(struct http_server *s)
{
	double now = monotonic_seconds();

	if (s->warned_full != 0 && now - s->warned_full < 60)
		return;
	s->warned_full = now;
	log_warning("a connection was turned away: %u are open", s->conn_count);
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer, int peer_len,
    void *arg)
{
	struct http_server *s = arg;

	(void)listener;
	(void)peer_len;
	if (s->conn_count >= s->options.connections && !make_room(s)) {
		s->turned_away++;
		warn_full(s);
		close(fd);
		return;
	}
	http_conn_new(s, fd, peer);
}

/* Out of descriptors, most likely: asking again at once would only spin. */
static void
on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct http_server *s = arg;
	struct timeval pause = {.tv_usec = 200 * 1000};

	log_warning("accept: %s", strerror(errno));
	/* without a timer it spins, but it does not go deaf */
	if (event_add(s->retry, &pause) == 0)
		evconnlistener_disable(listener);
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct timeval pause = {.tv_usec = 200 * 1000};
	struct http_server *s = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < s->listener_count; i++)
		if (s->listeners[i] != NULL && evconnlistener_enable(s->listeners[i]) != 0)
			event_add(s->retry, &pause);
}

int
http_server_listen(struct http_server *s, int fd)
{
	unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED;
	struct evconnlistener *listener = NULL;
	struct sockaddr_storage bound = {0};
	socklen_t len = sizeof(bound);
	size_t n = s->listener_count;
	int rc = 0;

	if (n == HTTP_LISTENERS)
		rc = -ENOSPC;
	else if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0)
		rc = -errno;
	else if ((listener = evconnlistener_new(s->base, on_accept, s, flags, 0, fd)) == NULL)
		rc = -ENOMEM;
	if (rc != 0) {
		close(fd);
		return rc;
	}
	evconnlistener_set_error_cb(listener, on_accept_error);
	if (evconnlistener_enable(listener) != 0) {
		evconnlistener_free(listener);
		return -ENOMEM;
	}
	address_text((struct sockaddr *)&bound, s->addresses[n], sizeof(s->addresses[n]));
	s->listeners[n] = listener;
	s->listener_count++;
	return 0;
}

int
http_server_open(
    struct http_server **out, struct event_base *base, const struct http_options *options)
{
	struct http_server *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	s->base = base;
	s->options = *options;
	TAILQ_INIT(&s->conns);
	s->retry = evtimer_new(base, on_retry, s);
	if (s->retry == NULL) {
		http_server_free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

static void
close_listeners(struct http_server *s)
{
	for (size_t i = 0; i < s->listener_count; i++) {
		if (s->listeners[i] != NULL)
			evconnlistener_free(s->listeners[i]);
		s->listeners[i] = NULL;
	}
}

void
http_server_stop(struct http_server *s)
{
	struct http_conn *c, *next;

	if (s->stopping)
		return;
	s->stopping = true;
	if (!s->options.listens_on)
		close_listeners(s); /* so that clients are refused, and do not wait in line */
	for (c = TAILQ_FIRST(&s->conns); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->state == HTTP_LINGER || c->state == HTTP_LATE ||
		    (c->state == HTTP_HEAD && c->scan.seen == 0))
			http_conn_free(c);
	}
}

/* In the place of whoever has the request, whose answer goes nowhere then. */
static void
answer_for(struct http_conn *c, unsigned status, const char *sentence)
{
	struct http_request *r = http_request_new(c);

	if (r == NULL) {
		http_conn_free(c);
		return;
	}
	r->label = c->request->label;
	memcpy(r->caller, c->request->caller, sizeof(r->caller));
	c->request->conn = NULL;
	c->request = r;
	http_add_header(r, "Retry-After", "30");
	http_reply_detail(r, status, sentence);
}

void
http_server_answer_all(struct http_server *s, unsigned status, const char *sentence)
{
	struct http_conn *c, *next;

	for (c = TAILQ_FIRST(&s->conns); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->state == HTTP_HANDLE && c->request->room == NULL)
			answer_for(c, status, sentence);
	}
}

unsigned
http_server_busy(const struct http_server *s)
{
	const struct http_conn *c;
	unsigned n = 0;

	TAILQ_FOREACH (c, &s->conns, link)
		n += !c->late && ((c->state == HTTP_BODY && c->trusted) ||
				     c->state == HTTP_HANDLE || c->state == HTTP_REPLY);
	return n;
}

void
http_server_free(struct http_server *s)
{
	struct http_conn *c;

	if (s == NULL)
		return;
	s->stopping = true;
	close_listeners(s);
	if (s->retry != NULL)
		event_free(s->retry);
	s->request_count++; /* a request that ends in here does not free s */
	while ((c = TAILQ_FIRST(&s->conns)) != NULL)
		http_conn_free(c);
	s->freed = true;
	if (--s->request_count == 0)
		free(s);
}

void
http_server_counts(const struct http_server *s, struct http_counts *out)
{
	*out = (struct http_counts){
	    .open = s->conn_count, .limit = s->options.connections, .turned_away = s->turned_away};
	memcpy(out->answered, s->answered, sizeof(out->answered));
}

const char *
http_server_address(const struct http_server *s, size_t n)
{
	return n < s->listener_count ? s->addresses[n] : NULL;
}

void
http_server_set_tls(struct http_server *s, struct ssl_ctx_st *tls)
{
	s->options.tls = tls;
}

void
http_trust(struct http_request *r, const char *name)
{
	snprintf(r->caller, sizeof(r->caller), "%s", name);
	if (r->conn != NULL)
		r->conn->trusted = true;
}

void
http_judge(struct http_request *r)
{
	struct http_server *s = r->server;
	struct http_plan plan = {.fd = -1};
	const struct http_head *h = &r->head;
	unsigned status;

	if (s->options.judge(s->options.arg, r, &plan) != 0)
		return;
	status = http_body_begin(r, &plan);
	if (status != 0) {
		http_refuse(r, status);
		return;
	}
	/* with the body's first bytes here already, nobody waits to be told to send it */
	if (h->continue_first && (h->chunked || h->length > 0)) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		if (evbuffer_get_length(bufferevent_get_input(r->conn->bev)) == 0)
			evbuffer_add(
			    bufferevent_get_output(r->conn->bev), go_on, sizeof(go_on) - 1);
	}
}
