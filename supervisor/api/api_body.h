/* The JSON body of a call, read as far as every call does it. */
#ifndef SUPERVISOR_API_API_BODY_H
#define SUPERVISOR_API_API_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/fault.h"
#include "ipc/json.h"
#include "supervisor/http/http.h"
#include "supervisor/store/object_url.h"
#include "supervisor/transfer/url.h"

struct stepd;

extern const char api_no_memory[];

/* A body that was read. */
struct api_body {
	struct json_doc *doc;
	void *fields; /* a struct of the call's own; its views are into doc */
};

/* Reads the fields of a call out of a document whose root is an object, or adds faults to f. */
typedef void api_body_parser(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f);

/* Reads the body of r into `size` bytes of fields. false after a reply: 422 with the faults, or 503
   without memory. api_body_fini in either case. */
bool api_body_read(struct api_body *body, struct stepd *s, struct http_request *r, size_t size,
    api_body_parser *parse);
void api_body_fini(struct api_body *body);

/* Adds a fault at the field `key` where its URL is an http one and not of one of our own objects,
   signed for that verb. */
void api_body_check_url(struct stepd *s, const struct url *url, const char *key,
    enum object_verb verb, struct faults *f);

#endif
