/* Answers without an end in sight: written piece by piece, as much as the client takes. */
#include <errno.h>
#include <stdio.h>

#include <event2/buffer.h>

#include "supervisor/http/http_conn.h"

static struct evbuffer *
output(const struct http_request *r)
{
	return bufferevent_get_output(r->conn->bev);
}

bool
http_stream_begin(struct http_request *r, unsigned status, const char *content_type,
    void (*room)(struct http_request *r, void *data))
{
	if (r->conn != NULL && r->head.minor == 0)
		r->conn->close = true; /* the end of the connection is the end of the answer */
	if (!http_reply_begin(r, status, content_type, HTTP_ENDLESS)) {
		http_reply_finish(r);
		return false;
	}
	r->room = room;
	return true;
}

int
http_stream_write(struct http_request *r, const void *data, size_t len)
{
	if (r->conn == NULL)
		return -EPIPE;
	if (evbuffer_get_length(output(r)) + len > HTTP_STREAM_BYTES)
		return -ENOBUFS;
	if (len == 0) /* a chunk of nothing is the last one */
		return 0;
	if (r->head.minor > 0) {
		char size[32];

		http_conn_put(r->conn, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
	}
	http_conn_put(r->conn, data, len);
	if (r->head.minor > 0)
		http_conn_put(r->conn, "\r\n", 2);
	r->streamed += len;
	return r->conn->broken ? -ENOMEM : 0;
}

uint64_t
http_stream_taken(const struct http_request *r)
{
	uint64_t waiting = r->conn != NULL ? evbuffer_get_length(output(r)) : 0;

	return r->streamed > waiting ? r->streamed - waiting : 0;
}

bool
http_stream_waits(const struct http_request *r)
{
	return r->conn != NULL && evbuffer_get_length(output(r)) > 0;
}

void
http_stream_end(struct http_request *r)
{
	r->room = NULL;
	if (r->conn != NULL && r->head.minor > 0)
		http_conn_put(r->conn, "0\r\n\r\n", 5);
	http_reply_finish(r);
}

void
http_stream_cut(struct http_request *r)
{
	r->room = NULL;
	if (r->conn != NULL)
		http_conn_free(r->conn); /* which tells on_gone, where that is set */
	else
		http_reply_finish(r);
}
