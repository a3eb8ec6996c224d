#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>

#include "supervisor/http/http_conn.h"

enum run { RUN_ON, RUN_WAIT, RUN_GONE };

/* Answers a request that goes no further. */
void
http_conn_refuse(struct http_conn *c, unsigned status)
{
	struct http_request *r = c->request != NULL ? c->request : http_request_new(c);

	if (r == NULL) {
		c->close = true;
		http_conn_state(c, HTTP_LINGER);
		return;
	}
	c->request = r;
	http_refuse(r, status);
}

void
http_refuse_late(
    struct http_request *r, unsigned milliseconds, unsigned status, const char *sentence)
{
	struct timeval tv = {milliseconds / 1000, milliseconds % 1000 * 1000};

	r->late.status = status;
	r->late.sentence = sentence;
	http_conn_state(r->conn, HTTP_LATE);
	evtimer_add(&r->conn->timer, &tv);
}

void
http_conn_late(struct http_conn *c)
{
	struct http_request *r = c->request;

	c->state = HTTP_BODY; /* where it was, with the body not taken */
	http_reply_detail(r, r->late.status, r->late.sentence);
}

/* What is left of a body that was not taken decides whether the next request can be found. */
void
http_conn_settle(struct http_conn *c)
{
	const struct http_head *h = &c->request->head;

	if (c->server->stopping || h->method == NULL || !h->keep_alive)
		c->close = true;
	if (c->state == HTTP_BODY) {
		bool sure = c->left == 0 || (!h->continue_first && c->left <= HTTP_DISCARD_BYTES);

		if (h->chunked || !sure)
			c->close = true;
	}
}

void
http_conn_replied(struct http_conn *c)
{
	/* left is what comes yet of a body that nobody wants */
	if (c->state != HTTP_BODY || c->close)
		c->left = 0;
	c->request = NULL;
	http_conn_state(c, HTTP_REPLY);
	http_conn_run(c);
}

/* Finds a request's head in the input. */
static enum run
run_head(struct http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	size_t len = evbuffer_get_length(in);
	unsigned char *p = evbuffer_pullup(in, -1);
	struct http_request *r;
	unsigned status;
	int found;

	/* an empty line before a request is an old client's habit */
	while (c->scan.seen == 0 && len >= 2 && p != NULL && p[0] == '\r' && p[1] == '\n') {
		evbuffer_drain(in, 2);
		len -= 2;
		p = evbuffer_pullup(in, -1);
	}
	if (len > 0 && p == NULL) { /* it lies in pieces, and there is no memory to join them */
		http_conn_free(c);
		return RUN_GONE;
	}
	if (len == 0 || (len == 1 && p[0] == '\r'))
		return RUN_WAIT;
	if (c->scan.seen == 0)
		http_conn_wait(c, c->server->options.header_seconds);
	found = http_scan(&c->scan, p + c->scan.seen, len - c->scan.seen);
	if (found == 0)
		return RUN_WAIT;
	if (found < 0) {
		http_conn_refuse(c, (unsigned)-found);
		return RUN_ON;
	}
	r = http_request_new(c);
	if (r == NULL) {
		http_conn_free(c);
		return RUN_GONE;
	}
	c->request = r;
	status = http_head_parse(&r->head, p, c->scan.seen);
	evbuffer_drain(in, c->scan.seen);
	if (status != 0) {
		r->head.method = NULL; /* whatever follows, it is not to be trusted */
		http_conn_refuse(c, status);
		return RUN_ON;
	}
	c->left = r->head.length;
	memset(&c->chunk, 0, sizeof(c->chunk));
	http_conn_state(c, HTTP_BODY);
	http_judge(r);
	return RUN_ON;
}

static void
run_body_end(struct http_conn *c)
{
	struct http_request *r = c->request;
	unsigned status = http_body_end(r);

	http_conn_state(c, HTTP_HANDLE);
	if (status != 0)
		http_refuse(r, status);
	else
		c->server->options.handle(c->server->options.arg, r);
}

/* Takes what has come of the body. */
static enum run
run_body(struct http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	const struct http_head *h = &c->request->head;
	bool ended = !h->chunked && c->left == 0;

	while (!ended) {
		size_t len = evbuffer_get_contiguous_space(in), used, piece_len;
		const void *p = evbuffer_pullup(in, (ev_ssize_t)len), *piece = p;
		unsigned status;

		if (len == 0)
			return RUN_WAIT;
		if (p == NULL) {
			http_conn_free(c);
			return RUN_GONE;
		}
		if (h->chunked) {
			int n = http_chunk_next(&c->chunk, p, len, &used, &piece, &piece_len);

			if (n < 0) {
				http_conn_refuse(c, 400);
				return RUN_ON;
			}
			ended = n == 1;
		} else {
			used = piece_len = len < c->left ? len : (size_t)c->left;
			c->left -= used;
			ended = c->left == 0;
		}
		status = http_body_add(c->request, piece, piece_len);
		evbuffer_drain(in, used);
		c->taken += used;
		if (status != 0) {
			http_conn_refuse(c, status);
			return RUN_ON;
		}
	}
	run_body_end(c);
	return RUN_ON;
}

/* A stream may go on when its client has taken what there was. */
static enum run
run_handle(struct http_conn *c)
{
	struct http_request *r = c->request;

	if (r->room != NULL && evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
		r->room(r, r->data);
	return c->state == HTTP_HANDLE ? RUN_WAIT : RUN_ON;
}

/* Keeps the output filled from a file. */
static enum run
run_reply(struct http_conn *c)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	if (c->broken) {
		http_conn_free(c);
		return RUN_GONE;
	}
	if (evbuffer_get_length(out) > 0)
		return RUN_WAIT;
	if (c->source_left > 0) {
		size_t want = HTTP_OUTPUT_BYTES;
		struct evbuffer_iovec space;
		ssize_t n = -1;

		if (want > c->source_left)
			want = (size_t)c->source_left;
		if (evbuffer_reserve_space(out, (ev_ssize_t)want, &space, 1) == 1)
			n = pread(c->source, space.iov_base, want, (off_t)c->source_off);
		if (n <= 0) { /* the length is promised: only an early end tells the truth */
			http_conn_free(c);
			return RUN_GONE;
		}
		space.iov_len = (size_t)n;
		evbuffer_commit_space(out, &space, 1);
		c->source_off += (uint64_t)n;
		c->source_left -= (uint64_t)n;
		return RUN_WAIT;
	}
	if (c->source != -1)
		close(c->source);
	c->source = -1;
	http_conn_state(c, c->close ? HTTP_LINGER : c->left > 0 ? HTTP_DISCARD : HTTP_HEAD);
	/* what the client still sends is read away for a while: a reset could destroy the answer */
	if (c->close) {
		SSL *ssl = bufferevent_openssl_get_ssl(c->bev);

		if (ssl != NULL)
			SSL_shutdown(ssl);
		shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	}
	return RUN_ON;
}

static enum run
run_discard(struct http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	size_t len = evbuffer_get_length(in);

	if (len > c->left)
		len = (size_t)c->left;
	evbuffer_drain(in, len);
	c->taken += len;
	c->left -= len;
	if (c->left > 0)
		return RUN_WAIT;
	http_conn_state(c, HTTP_HEAD);
	return RUN_ON;
}

/* What is read ahead is bounded: a watermark of libevent's does the same, but ends the process
   where there is no memory for it. false: there is none to go on. */
static bool
bound_input(struct http_conn *c)
{
	bool full = evbuffer_get_length(bufferevent_get_input(c->bev)) >= HTTP_INPUT_BYTES;

	if (full == c->full)
		return true;
	c->full = full;
	return (full ? bufferevent_disable(c->bev, EV_READ)
		     : bufferevent_enable(c->bev, EV_READ)) == 0;
}

/* Every step leaves a state in which the next one can be taken, until bytes are missing. */
void
http_conn_run(struct http_conn *c)
{
	enum run next = RUN_ON;

	if (c->running)
		return;
	c->running = true;
	while (next == RUN_ON) {
		switch (c->state) {
		case HTTP_HEAD:
			next = run_head(c);
			break;
		case HTTP_BODY:
			next = run_body(c);
			break;
		case HTTP_HANDLE:
			next = run_handle(c);
			break;
		case HTTP_LATE:
			next = RUN_WAIT;
			break;
		case HTTP_REPLY:
			next = run_reply(c);
			break;
		case HTTP_DISCARD:
			next = run_discard(c);
			break;
		case HTTP_LINGER:
			evbuffer_drain(bufferevent_get_input(c->bev), SIZE_MAX);
			next = RUN_WAIT;
			break;
		}
	}
	if (next == RUN_GONE)
		return;
	c->running = false;
	if (!bound_input(c)) {
		http_conn_free(c);
		return;
	}
	/* nothing more will come to complete what is there */
	if (c->eof && c->state != HTTP_REPLY && c->state != HTTP_HANDLE)
		http_conn_free(c);
}
