/* From a call of a session to the request that its session serves. */
#ifndef SUPERVISOR_API_API_CALL_H
#define SUPERVISOR_API_API_CALL_H

#include "supervisor/session/session.h"

extern const char api_not_found[], api_no_memory[];

/* A request with its Idempotency-Key, where it has one. Consumes fd. NULL after a reply. */
struct session_request *api_call_request(struct http_request *r, enum request_kind kind, int fd);
/* Passes a request on to its session; consumes it. */
void api_call_post(struct session *session, struct session_request *request);

#endif
