/*
 * Idempotency-Key: what names a request, so that it is done once however often it is sent.
 */
#ifndef SUPERVISOR_API_API_KEY_H
#define SUPERVISOR_API_API_KEY_H

#include <stdint.h>

#include "supervisor/http/http.h"
#include "supervisor/session/kept_answer.h"

struct session_request;

/* For a key that came with another request. */
extern const char api_key_taken[];

/* The request's key, or that of its operation, into *key: a view, NULL without one. 0, or -1 after
   a reply. */
int api_key(struct http_request *r, const char **key);
/* The same, and its digest, into a request for a session. 0, or -1 after a reply. */
int api_key_take(struct http_request *r, struct session_request *request);
/* What is asked beside the path: the digest of the body, or of the query of a call that has none.
   0 or -ENOMEM. */
int api_digest(struct http_request *r, uint8_t digest[KEPT_DIGEST]);

#endif
