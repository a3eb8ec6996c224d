/* Bearer tokens: who may call what CALLER_TOKEN guards. */
#ifndef SUPERVISOR_HTTP_AUTH_H
#define SUPERVISOR_HTTP_AUTH_H

struct http_request;
struct tokens;

/* The name of the token that the request carries: exactly one Authorization header, and that
   "Bearer <token>" to the letter. A view of the set's; NULL: none of them. */
const char *auth_name(const struct http_request *r, const struct tokens *tokens);

#endif
