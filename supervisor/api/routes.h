/*
 * The calls stepd answers: one const table in routes.c, method and path to handler, who may call it
 * and what body it takes. Order of the checks: path (404), method (405 with Allow), token (401),
 * stopping (503), body (411, 413, 415), then the handler.
 */
#ifndef SUPERVISOR_API_ROUTES_H
#define SUPERVISOR_API_ROUTES_H

#include <stddef.h>

#include "supervisor/http/http.h"
#include "supervisor/stepd.h"

enum route_caller {
	CALLER_ANYONE,
	CALLER_TOKEN,  /* Authorization: Bearer <token> */
	CALLER_SIGNED, /* the handler's `begin` judges the signature in the URL */
};

enum route_body {
	BODY_NONE,   /* read and forgotten, at most 64 KiB */
	BODY_MEMORY, /* into a sealed memfd, at most STEPD_BODY_LIMIT */
	BODY_FILE,   /* where `begin` says */
};

/* May a client prefer not to wait (operations.h)? */
enum route_later {
	LATER_NO,
	LATER_KEPT,   /* its answer is kept in the store */
	LATER_MEMORY, /* its answer may hold text, which is not */
};

struct http_plan;

/* Where a BODY_FILE goes: filled by begin. */
struct route_sink {
	int fd; /* stays the handler's */
	uint64_t limit;
};

struct route {
	const char *method;
	const char *pattern; /* "{id}" is one segment, or its part before ":" */
	enum route_caller caller;
	enum route_body body;
	/* Before the body is taken: 0, or -1 after a reply. NULL: nothing to do. */
	int (*begin)(struct stepd *s, struct http_request *r, struct route_sink *sink);
	void (*handle)(struct stepd *s, struct http_request *r);
	enum route_later later;
};

/* Matches a path as sent against a pattern; percent escapes of a segment are decoded and compare
   equal, but an escaped slash never separates. *param gets the decoded {id}, to be freed, or NULL.
   1, 0, or -ENOMEM. */
int route_match(const char *pattern, const char *path, char **param);

/* For struct http_options; arg is the struct stepd. */
int routes_judge(void *arg, struct http_request *r, struct http_plan *plan);
void routes_handle(void *arg, struct http_request *r);

void api_healthz(struct stepd *s, struct http_request *r);
void api_session_open(struct stepd *s, struct http_request *r);
void api_sessions_list(struct stepd *s, struct http_request *r);
void api_session_events(struct stepd *s, struct http_request *r);
void api_session_get(struct stepd *s, struct http_request *r);
void api_session_close(struct stepd *s, struct http_request *r);
void api_render(struct stepd *s, struct http_request *r);
void api_train(struct stepd *s, struct http_request *r);
void api_save(struct stepd *s, struct http_request *r);
void api_restore(struct stepd *s, struct http_request *r);
void api_evaluate(struct stepd *s, struct http_request *r);
void api_verify(struct stepd *s, struct http_request *r);
void api_generate(struct stepd *s, struct http_request *r);

#endif
