#include "supervisor/http/http_conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>

#include "supervisor/http/address.h"

static uint64_t
progress(const struct http_conn *c)
{
	return c->taken - c->source_left - evbuffer_get_length(bufferevent_get_output(c->bev));
}

void
http_conn_wait(struct http_conn *c, unsigned seconds)
{
	struct timeval tv = {.tv_sec = seconds};

	c->noted = progress(c);
	evtimer_add(&c->timer, &tv);
}

void
http_conn_state(struct http_conn *c, enum http_state state)
{
	const struct http_options *o = &c->server->options;

	c->state = state;
	switch (state) {
	case HTTP_HEAD:
		TAILQ_REMOVE(&c->server->conns, c, link);
		TAILQ_INSERT_TAIL(&c->server->conns, c, link);
		memset(&c->scan, 0, sizeof(c->scan));
		http_conn_wait(c, o->idle_seconds);
		break;
	case HTTP_HANDLE:
		evtimer_del(&c->timer);
		break;
	case HTTP_BODY:
	case HTTP_REPLY:
	case HTTP_DISCARD:
		http_conn_wait(c, o->body_seconds);
		break;
	case HTTP_LINGER:
		http_conn_wait(c, HTTP_LINGER_SECONDS);
		break;
	case HTTP_LATE: /* http_refuse_late has set the timer */
		break;
	}
}

void
http_conn_free(struct http_conn *c)
{
	struct http_request *r = c->request;
	struct http_server *s = c->server;

	event_del(&c->timer);
	bufferevent_free(c->bev);
	if (c->source != -1)
		close(c->source);
	TAILQ_REMOVE(&s->conns, c, link);
	s->conn_count--;
	if (r != NULL) {
		r->conn = NULL;
		if (c->state != HTTP_HANDLE)
			http_request_free(r); /* no handler has seen it */
		else if (r->gone != NULL)
			r->gone(r, r->data);
	}
	free(c);
}

void
http_conn_put(struct http_conn *c, const void *data, size_t len)
{
	if (!c->broken && evbuffer_add(bufferevent_get_output(c->bev), data, len) != 0)
		c->broken = true;
}

/* The client sends nothing more, or something broke. */
static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	struct http_conn *c = arg;
	bool tls = bufferevent_openssl_get_ssl(bev) != NULL;

	if ((what & BEV_EVENT_CONNECTED) != 0)
		return;
	/* a plain connection can be closed one way and still take its answer; what happened since
	   the last call comes together */
	if ((what & (BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0 || tls || c->eof) {
		http_conn_free(c);
		return;
	}
	c->eof = true;
	if (c->state == HTTP_HANDLE) {
		struct http_request *r = c->request;
		void (*gone)(struct http_request *, void *) = r->gone;

		r->gone = NULL;
		if (gone != NULL)
			gone(r, r->data); /* may reply, after which c may be gone */
	} else if (c->state != HTTP_REPLY) {
		http_conn_free(c);
	}
}

static void
on_ready(struct bufferevent *bev, void *arg)
{
	(void)bev;
	http_conn_run(arg);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http_conn *c = arg;
	bool begun = evbuffer_get_length(bufferevent_get_input(c->bev)) > 0;

	(void)fd;
	(void)what;
	if (c->state == HTTP_BODY || c->state == HTTP_REPLY || c->state == HTTP_DISCARD) {
		if (progress(c) - c->noted >= HTTP_PROGRESS_BYTES) {
			http_conn_wait(c, c->server->options.body_seconds);
			return;
		}
	}
	if (c->state == HTTP_LATE)
		http_conn_late(c);
	else if (c->state == HTTP_BODY || (c->state == HTTP_HEAD && begun))
		http_conn_refuse(c, 408);
	else
		http_conn_free(c);
}

static struct bufferevent *
new_bufferevent(struct http_server *s, int fd)
{
	int flags = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
	struct bufferevent *bev;
	SSL *ssl;

	if (s->options.tls == NULL)
		return bufferevent_socket_new(s->base, fd, flags);
	ssl = SSL_new(s->options.tls);
	if (ssl == NULL)
		return NULL;
	bev = bufferevent_openssl_socket_new(s->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, flags);
	if (bev == NULL)
		SSL_free(ssl);
	else
		bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	return bev;
}

int
http_conn_new(struct http_server *s, int fd, const struct sockaddr *peer)
{
	struct http_conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (c != NULL)
		c->bev = new_bufferevent(s, fd);
	if (c == NULL || c->bev == NULL) {
		free(c);
		close(fd);
		return -ENOMEM;
	}
	c->server = s;
	c->late = s->stopping;
	c->source = -1;
	address_text(peer, c->peer, sizeof(c->peer));
	address_host(peer, &c->origin);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* a step may take longer than a dead client should be waited for */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	evtimer_assign(&c->timer, s->base, on_timer, c);
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->conn_count++;
	bufferevent_setcb(c->bev, on_ready, on_ready, on_event, c);
	c->state = HTTP_HEAD;
	if (bufferevent_enable(c->bev, EV_READ | EV_WRITE) != 0) {
		http_conn_free(c);
		return -ENOMEM;
	}
	http_conn_state(c, HTTP_HEAD);
	http_conn_wait(c, s->options.header_seconds);
	return 0;
}
