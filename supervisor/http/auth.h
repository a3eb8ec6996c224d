/* The bearer token: who may call what CALLER_TOKEN guards. */
#ifndef SUPERVISOR_HTTP_AUTH_H
#define SUPERVISOR_HTTP_AUTH_H

#include <stdbool.h>

struct http_request;

/* Does the request carry exactly one Authorization header, and is it "Bearer <token>" to the
   letter? Compared in constant time. */
bool auth_allows(const struct http_request *r, const char *token);

#endif
