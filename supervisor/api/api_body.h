/* The body of a call, read as far as every call does it. */
#ifndef SUPERVISOR_API_API_BODY_H
#define SUPERVISOR_API_API_BODY_H

#include "ipc/fault.h"
#include "ipc/json.h"
#include "supervisor/http/http.h"

/* Parses the body of r into a document whose root is an object, or adds why not to f. The document
   (json_free), or NULL. */
struct json_doc *api_body_parse(struct http_request *r, struct faults *f);

#endif
