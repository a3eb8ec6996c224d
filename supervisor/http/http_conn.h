/*
 * Inside the HTTP server: one connection, and the request it is at. Only http_*.c include this.
 *
 *	HEAD -> BODY -> HANDLE -> REPLY -> HEAD ...	a kept connection
 *	any of them -> REPLY -> LINGER -> closed	a refusal, or the last answer
 *	BODY -> LATE -> BODY -> REPLY			a refusal that waits (http_refuse_late)
 *
 * A connection has at most one request; what a client sends ahead waits in its input buffer,
 * which is bounded, so answers come in order and nothing piles up.
 */
#ifndef SUPERVISOR_HTTP_HTTP_CONN_H
#define SUPERVISOR_HTTP_HTTP_CONN_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include "supervisor/http/http_chunk.h"
#include "supervisor/http/http_head.h"
#include "supervisor/http/http_server.h"
#include "supervisor/http/tokens.h"

enum {
	HTTP_INPUT_BYTES = HTTP_HEADER_BYTES + 4096, /* read ahead, per connection */
	HTTP_OUTPUT_BYTES = 256 * 1024,		     /* a file is answered in pieces of this */
	HTTP_DISCARD_BYTES = 64 * 1024,		     /* of a refused body, to keep the connection */
	HTTP_PROGRESS_BYTES = 1024,		     /* that a deadline wants to see moved */
	HTTP_LINGER_SECONDS = 5,
	HTTP_PEER_BYTES = 64,
	HTTP_ARGS = 16,
};

enum http_state {
	HTTP_HEAD,
	HTTP_BODY,
	HTTP_HANDLE,
	HTTP_REPLY,
	HTTP_DISCARD,
	HTTP_LINGER,
	HTTP_LATE
};

struct http_body {
	enum http_body_kind kind;
	int fd;
	uint64_t len, limit;
	uint64_t reserved; /* of the server's body_memory */
	struct blob_view view;
	bool mapped;
};

struct http_arg {
	const char *name, *value;
};

struct http_request {
	struct http_conn *conn;	    /* NULL: the client has gone */
	struct http_server *server; /* NULL: none was asked */
	struct http_head head;
	struct http_body body;
	const void *route;
	char *param;
	const char *label; /* what the log calls it: never the path, which may be a secret */
	char peer[HTTP_PEER_BYTES];
	struct in6_addr origin;
	char caller[TOKEN_NAME_MAX + 1]; /* the name of its token, "" without one */
	struct {
		unsigned status;
		const char *sentence;
	} late;
	void (*room)(struct http_request *r, void *data); /* http_stream.c */
	uint64_t streamed;
	char *query; /* cut into args, which are read when first asked for */
	struct http_arg args[HTTP_ARGS];
	size_t arg_count;
	char *headers;	 /* of the reply to come, "Name: value\r\n"... */
	http_sink *sink; /* where the reply goes in place of a connection, or NULL */
	void *sink_ctx;
	void *data;
	void (*gone)(struct http_request *r, void *data);
	void (*end)(void *data);
	double begun; /* monotonic seconds */
};

struct http_conn {
	TAILQ_ENTRY(http_conn) link;
	struct http_server *server;
	struct bufferevent *bev;
	struct event timer;
	enum http_state state;
	bool running;		      /* http_conn_run is on the stack */
	bool eof;		      /* the client sends nothing more */
	bool full;		      /* nothing more is read until some of it is taken */
	bool close;		      /* after this answer */
	bool broken;		      /* no memory for all of an answer: it ends without one */
	bool trusted;		      /* http_trust */
	bool late;		      /* came while the server stops */
	struct http_request *request; /* in BODY and HANDLE */
	struct http_scan scan;
	struct http_chunk chunk;
	uint64_t left;	/* bytes of the body, or to discard */
	uint64_t taken; /* bytes of bodies, ever: progress */
	uint64_t noted; /* progress when the timer was set */
	int source;	/* file of the answer, -1 = none */
	uint64_t source_off, source_left;
	char peer[HTTP_PEER_BYTES];
	struct in6_addr origin;
};

TAILQ_HEAD(http_conns, http_conn);

struct http_server {
	struct event_base *base;
	struct http_options options;
	struct evconnlistener *listeners[HTTP_LISTENERS];
	char addresses[HTTP_LISTENERS][HTTP_PEER_BYTES];
	size_t listener_count;
	struct event *retry;	 /* to listen again after running out of descriptors */
	struct http_conns conns; /* the longest idle first */
	unsigned conn_count;
	unsigned request_count; /* also those whose client has gone */
	uint64_t body_used;
	uint64_t turned_away, answered[6]; /* struct http_counts */
	double warned_full; /* that connections are turned away: monotonic seconds, 0 = never */
	bool stopping, freed;
};

/* http_conn.c */
/* Takes over fd. 0, or -ENOMEM with fd closed. */
int http_conn_new(struct http_server *s, int fd, const struct sockaddr *peer);
void http_conn_free(struct http_conn *c);
/* Bytes of an answer: all of them or, where there is no memory, an answer that is broken; one with
   a hole in it would be worse than none. */
void http_conn_put(struct http_conn *c, const void *data, size_t len);
/* Enters a state, with its deadline. */
void http_conn_state(struct http_conn *c, enum http_state state);
/* Sets the deadline anew. */
void http_conn_wait(struct http_conn *c, unsigned seconds);

/* http_run.c */
/* Goes on as far as the bytes at hand allow. May free c. */
void http_conn_run(struct http_conn *c);
/* The end of LATE: the answer that waited. May free c. */
void http_conn_late(struct http_conn *c);
/* Answers a request that goes no further. */
void http_conn_refuse(struct http_conn *c, unsigned status);
/* An answer is about to be written: decides whether the connection can be kept after it. */
void http_conn_settle(struct http_conn *c);
/* The answer has been put in the output: what next. May free c. */
void http_conn_replied(struct http_conn *c);

/* http_body.c: 0, or the status to refuse with. */
unsigned http_body_begin(struct http_request *r, const struct http_plan *plan);
unsigned http_body_add(struct http_request *r, const void *data, size_t len);
unsigned http_body_end(struct http_request *r);
void http_body_fini(struct http_request *r);

/* http_request.c */
struct http_request *http_request_new(struct http_conn *c);
void http_request_free(struct http_request *r);

/* http_server.c: asks judge, and begins the body. */
void http_judge(struct http_request *r);

/* http_reply.c */
/* Replies with the sentence of a status of HTTP's own. */
void http_refuse(struct http_request *r, unsigned status);
const char *http_status_text(unsigned status);
/* Status line and headers; len HTTP_ENDLESS: the end is told by chunks or by the connection's. Are
   the bytes of a body wanted? */
#define HTTP_ENDLESS UINT64_MAX
bool http_reply_begin(struct http_request *r, unsigned status, const char *type, uint64_t len);
/* Everything is in the output: the request ends. */
void http_reply_finish(struct http_request *r);

#endif
