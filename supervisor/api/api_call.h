/* From a call of a session to the request that its session serves. */
#ifndef SUPERVISOR_API_API_CALL_H
#define SUPERVISOR_API_API_CALL_H

#include "supervisor/api/api_body.h"
#include "supervisor/session/session.h"

/* The session that the path names; NULL after a reply (404). */
struct session *api_session(struct stepd *s, struct http_request *r);

/* A call of a session with a JSON body. */
struct api_call {
	size_t size; /* of its fields */
	api_body_parser *parse;
	/* The body is good and there is a session: answers r, now or later. */
	void (*serve)(struct session *session, struct http_request *r, const void *fields);
};

/* Serves the call, or replies: first what is wrong with the body, then that there is no session. */
void api_call_serve(struct stepd *s, struct http_request *r, const struct api_call *call);

/* A request with its Idempotency-Key, where it has one. Consumes fd. NULL after a reply. */
struct session_request *api_call_request(struct http_request *r, enum request_kind kind, int fd);
/* Passes a request on to its session; consumes it. */
void api_call_post(struct session *session, struct session_request *request);

#endif
