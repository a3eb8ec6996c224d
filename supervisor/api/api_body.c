#include "supervisor/api/api_body.h"

#include "ipc/request_body.h"

struct json_doc *
api_body_parse(struct http_request *r, struct faults *f)
{
	const struct blob_view *body = http_body(r);
	struct json_doc *doc = NULL;

	if (body == NULL) {
		faults_refuse(f, 503, "stepd has no memory left for the body");
		return NULL;
	}
	if (request_body_parse(&doc, http_is_json(r), body->data, body->len, f) != 0)
		return NULL;
	return doc;
}
