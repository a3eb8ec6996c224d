/*
 * The listening side of http.h: what the program starts, and what judges its requests.
 */
#ifndef SUPERVISOR_HTTP_HTTP_SERVER_H
#define SUPERVISOR_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "supervisor/http/http.h"

struct event_base;
struct http_server;
struct ssl_ctx_st;

/* What becomes of a body, said before it is taken. */
enum http_body_kind {
	HTTP_BODY_DISCARD, /* read and forgotten */
	HTTP_BODY_MEMORY,  /* a sealed memfd */
	HTTP_BODY_FILE,	   /* plan.fd, written from its start; stays the judge's */
};

struct http_plan {
	enum http_body_kind body;
	int fd;
	uint64_t limit;	   /* bytes; more: 413 */
	bool needs_length; /* a body without Content-Length: 411 */
};

/* The client has shown that it may call, by the token of that name ("": by a signed URL): its
   connection is kept before those of strangers. */
void http_trust(struct http_request *r, const char *name);
/* A reply of judge's that the client gets after that time. Until then its connection is among the
   first that make room for others. sentence: a constant. */
void http_refuse_late(
    struct http_request *r, unsigned milliseconds, unsigned status, const char *sentence);
/* What judge remembers for handle: any constant; the {id}, consumed, or NULL; and what the log
   calls the request, a constant. */
void http_set_route(struct http_request *r, const void *route, char *param, const char *label);
const void *http_route(const struct http_request *r);

struct http_options {
	/* By request line and headers: 0 and *plan filled, or -1 after a reply. */
	int (*judge)(void *arg, struct http_request *r, struct http_plan *plan);
	void (*handle)(void *arg, struct http_request *r);
	void *arg;
	struct ssl_ctx_st *tls; /* NULL: plain; stays the caller's */
	unsigned connections;
	unsigned header_seconds, body_seconds, idle_seconds;
	uint64_t body_memory; /* bound of all bodies in memory together */
	bool listens_on;      /* while it stops too: who comes is told, not refused */
};

enum { HTTP_LISTENERS = 16 };

/* A server that listens nowhere yet. 0 or -ENOMEM. */
int http_server_open(
    struct http_server **out, struct event_base *base, const struct http_options *options);
/* Takes connections of a listening, non-blocking socket too. Consumes fd, also on failure. 0,
   -ENOSPC (HTTP_LISTENERS are open) or -errno. */
int http_server_listen(struct http_server *s, int fd);
/* New connections from now on get this one (plain stays plain, TLS stays TLS); old ones go on with
   theirs, which OpenSSL keeps for them. */
void http_server_set_tls(struct http_server *s, struct ssl_ctx_st *tls);
/* Idle connections are closed, others after the answer they are at. New ones are refused, or with
   listens_on answered. May be called again. */
void http_server_stop(struct http_server *s);
/* Connections that still owe an answer; bodies of strangers are not waited for, nor those who came
   while it stops. */
unsigned http_server_busy(const struct http_server *s);
/* Answers each request that is being handled, in the place of whoever handles it, with a sentence
   and when to try again. */
void http_server_answer_all(struct http_server *s, unsigned status, const char *sentence);
/* Closes everything; requests not yet replied to are gone. NULL is allowed. */
void http_server_free(struct http_server *s);
/* What it has done so far, for operators. */
struct http_counts {
	unsigned open, limit; /* connections */
	uint64_t turned_away; /* connections for which there was no room */
	uint64_t answered[6]; /* requests by the hundreds of their status: [2] = 2xx */
};
void http_server_counts(const struct http_server *s, struct http_counts *out);
/* The address that the n-th socket is bound to, "127.0.0.1:43121", a view; NULL: there are fewer.
 */
const char *http_server_address(const struct http_server *s, size_t n);

#endif
