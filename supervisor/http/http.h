/*
 * The HTTP/1.1 server: connections on libevent bufferevents (TLS or plain), a strict reading of
 * requests, answers in order. It knows no route: `judge` decides by the request line and headers
 * alone, before a byte of the body is taken; `handle` gets the whole request.
 *
 * A request is one exchange. Its handler replies exactly once, at once or later, from the event
 * loop. The reply ends the request: the pointer is dead after it. If the client has gone, the reply
 * is dropped silently, so a handler need not care; who wants to know sets http_on_gone.
 */
#ifndef SUPERVISOR_HTTP_HTTP_H
#define SUPERVISOR_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/blob.h"

struct faults;
struct http_request;
struct in6_addr;

/* Views, valid until the reply. Paths and query values are percent-decoded, NUL-terminated. */
const char *http_method(const struct http_request *r);
const char *http_path(const struct http_request *r);  /* as sent, without the query */
const char *http_param(const struct http_request *r); /* {id} of the route, "" if none */
const char *http_peer(const struct http_request *r);  /* address of the client, for the log */
const struct in6_addr *http_origin(const struct http_request *r); /* the peer's (address_host) */
/* A header's value, outer white space trimmed, name in any case; the first of several; or NULL. */
const char *http_header(const struct http_request *r, const char *name);
/* The i-th of several; or NULL. */
const char *http_header_at(const struct http_request *r, const char *name, size_t i);
size_t http_header_count(const struct http_request *r, const char *name);
/* The first query value of that name, or NULL. A view, valid until the reply. */
const char *http_query(const struct http_request *r, const char *name);
/* The query as sent, or NULL. */
const char *http_query_text(const struct http_request *r);
/* Is the Content-Type application/json or application/...+json (any case, parameters ignored)? */
bool http_is_json(const struct http_request *r);

/* The Content-Length, before the body has come; 0 if none was given. */
uint64_t http_content_length(const struct http_request *r);
size_t http_body_len(const struct http_request *r);
/* The body mapped, for reading; of an empty body a view of length 0. NULL: no memory. */
const struct blob_view *http_body(struct http_request *r);
/* The body as a sealed memfd, which the caller closes; -1 if it is empty. */
int http_body_take(struct http_request *r);

/* Adds a header to the reply to come; copied. */
void http_add_header(struct http_request *r, const char *name, const char *value);
void http_reply_json(struct http_request *r, unsigned status, const char *json, size_t len);
/* {"detail": sentence} */
void http_reply_detail(struct http_request *r, unsigned status, const char *sentence);
/* {"detail": json}, for a detail that is JSON already. */
void http_reply_detail_json(struct http_request *r, unsigned status, const char *json, size_t len);
/* The faults as the detail, with their status. Does not consume f. */
void http_reply_faults(struct http_request *r, const struct faults *f);
/* No body: 204, or a 201. */
void http_reply_empty(struct http_request *r, unsigned status);
/* len bytes of fd from off, read as the client takes them. Consumes fd. */
void http_reply_fd(struct http_request *r, unsigned status, const char *content_type, int fd,
    uint64_t off, uint64_t len);

/* The answer to a request that has no client. */
struct http_answer {
	unsigned status;
	const char *headers; /* "Name: value\r\n"..., those that were added */
	const char *type;    /* NULL: no body */
	const char *body;
	int fd; /* or -1; then the body is in it, from off on, and it stays http's to close */
	uint64_t off;
	uint64_t len;
};
typedef void http_sink(void *ctx, const struct http_answer *answer);

/* A request that nobody waits for: its answer goes to a sink, once, and no client can go away. It
   takes from `r` all that can be asked of a request, the body too, and leaves it nothing but its
   client, who is owed an answer as before; NULL makes a request without anything. NULL: no memory.
 */
struct http_request *http_detach(struct http_request *r, http_sink *sink, void *ctx);
/* The context of its sink, or NULL: the request has a client. */
void *http_sink_context(const struct http_request *r);
/* Forgets a detached request that is never answered, when the program ends. NULL is allowed. */
void http_abandon(struct http_request *r);
/* Answers as a detached request was answered. */
void http_reply_answer(struct http_request *r, const struct http_answer *answer);

/* An answer that goes on: begin, any number of writes, end (or cut). What the client has not taken
   waits here, never more than HTTP_STREAM_BYTES. Only for requests that have a client. */
enum { HTTP_STREAM_BYTES = 64 * 1024 };
/* Status and headers. room is called from the event loop whenever all that was written is taken.
   False: the request has ended, for it was a HEAD or its client has gone; on_gone is not called. */
bool http_stream_begin(struct http_request *r, unsigned status, const char *content_type,
    void (*room)(struct http_request *r, void *data));
/* All of it or nothing: 0; -ENOBUFS, room is called later; -EPIPE, the client has gone; -ENOMEM. */
int http_stream_write(struct http_request *r, const void *data, size_t len);
/* Bytes that the client has taken so far, more or less; whether some wait for it. */
uint64_t http_stream_taken(const struct http_request *r);
bool http_stream_waits(const struct http_request *r);
/* The end of the answer, owed also after on_gone; the request ends. */
void http_stream_end(struct http_request *r);
/* Ends the connection where it is. on_gone is called, and owes the end, if it is set and the client
   has not gone already. */
void http_stream_cut(struct http_request *r);

/* A data pointer of the handler's. on_gone: called once if the client goes before the reply; the
   handler still owes its reply (which is then dropped). on_end: called once when the request ends
   in any way, also when the client goes while its body is still coming and `handle` is never
   called. */
void http_set_data(struct http_request *r, void *data);
void *http_data(const struct http_request *r);
void http_on_gone(struct http_request *r, void (*gone)(struct http_request *r, void *data));
void http_on_end(struct http_request *r, void (*end)(void *data));

#endif
