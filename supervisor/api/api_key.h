/*
 * Idempotency-Key: what names a request, so that it is done once however often it is sent. A key
 * belongs to the session of the call; where a call has none, to the client, by the name of its
 * token: two who happen to choose the same key must not share what it opens.
 */
#ifndef SUPERVISOR_API_API_KEY_H
#define SUPERVISOR_API_API_KEY_H

#include <stdint.h>

#include "supervisor/http/http.h"
#include "supervisor/session/kept_answer.h"

struct session_request;
struct stepd;

enum { API_OWN_KEY_SIZE = 65 };

/* For a key that came with another request. */
extern const char api_key_taken[];

/* The request's key, or that of its operation, into *key: a view, NULL without one. 0, or -1 after
   a reply. */
int api_key(struct http_request *r, const char **key);
/* For calls without a session: the client's own, "" without one. 0, or -1 after a reply. */
int api_own_key(struct stepd *s, struct http_request *r, char key[API_OWN_KEY_SIZE]);
/* The key and its digest into a request for a session. 0, or -1 after a reply. */
int api_key_take(struct http_request *r, struct session_request *request);
/* What is asked beside the path: the digest of the body, or of the query of a call that has none.
   0 or -ENOMEM. */
int api_digest(struct http_request *r, uint8_t digest[KEPT_DIGEST]);

#endif
