#include "supervisor/api/api_body.h"

#include <stdlib.h>

#include "ipc/request_body.h"
#include "supervisor/store/objects.h"
#include "supervisor/transfer/url_field.h"

const char api_no_memory[] = "stepd has no memory left for the request";

static void
read_body(struct api_body *body, struct stepd *s, struct http_request *r, size_t size,
    api_body_parser *parse, struct faults *f)
{
	const struct blob_view *bytes = http_body(r);

	body->fields = malloc(size);
	if (body->fields == NULL || bytes == NULL)
		faults_refuse(f, 503, api_no_memory);
	else if (request_body_parse(&body->doc, http_is_json(r), bytes->data, bytes->len, f) == 0)
		parse(s, body->doc, body->fields, f);
}

bool
api_body_read(struct api_body *body, struct stepd *s, struct http_request *r, size_t size,
    api_body_parser *parse)
{
	struct faults f;
	bool good;

	*body = (struct api_body){0};
	faults_init(&f);
	read_body(body, s, r, size, parse, &f);
	good = !faults_any(&f);
	if (!good)
		http_reply_faults(r, &f);
	faults_fini(&f);
	return good;
}

void
api_body_fini(struct api_body *body)
{
	json_free(body->doc);
	free(body->fields);
	*body = (struct api_body){0};
}

void
api_body_check_url(struct stepd *s, const struct url *url, const char *key, enum object_verb verb,
    struct faults *f)
{
	struct object_ref ref;

	if (url->plain && objects_resolve(s, url->text, verb, &ref) == 0)
		url_fault_plain(f, key);
}
