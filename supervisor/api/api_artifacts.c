/* The calls of a session that name a URL: artifacts:save, artifacts:verify, :restore. */
#include <stdlib.h>
#include <string.h>

#include "supervisor/api/api_call.h"
#include "supervisor/api/request_restore.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_verify.h"
#include "supervisor/api/routes.h"

/* Passes a request on with copies of its URLs, "" for none; consumes it. */
static void
post(struct session *session, struct session_request *request, const char *url,
    const char *restore_url)
{
	if (*url != '\0')
		request->url = strdup(url);
	if (*restore_url != '\0')
		request->restore_url = strdup(restore_url);
	if ((*url != '\0' && request->url == NULL) ||
	    (*restore_url != '\0' && request->restore_url == NULL)) {
		http_reply_detail(request->http, 503, api_no_memory);
		session_request_free(request);
		return;
	}
	api_call_post(session, request);
}

static void
parse_save(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	struct request_save *body = fields;

	if (request_save_parse(doc, body, f) != 0)
		return;
	api_body_check_url(s, &body->upload_url, "upload_url", OBJECT_PUT, f);
	api_body_check_url(s, &body->restore_url, "restore_url", OBJECT_GET, f);
}

static void
save(struct session *session, struct http_request *r, const void *fields)
{
	const struct request_save *body = fields;
	struct session_request *request = api_call_request(r, REQUEST_SAVE, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	post(session, request, body->upload_url.text, body->restore_url.text);
}

static void
parse_verify(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	struct request_verify *body = fields;

	if (request_verify_parse(doc, body, f) == 0)
		api_body_check_url(s, &body->download_url, "download_url", OBJECT_GET, f);
}

static void
verify(struct session *session, struct http_request *r, const void *fields)
{
	const struct request_verify *body = fields;
	struct session_request *request = api_call_request(r, REQUEST_VERIFY, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	request->size = body->size_bytes;
	if (body->sha256 != NULL)
		memcpy(request->sha256, body->sha256, sizeof(request->sha256));
	post(session, request, body->download_url.text, "");
}

static void
parse_restore(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	struct request_restore *body = fields;

	if (request_restore_parse(doc, body, f) == 0)
		api_body_check_url(s, &body->restore_url, "restore_url", OBJECT_GET, f);
}

static void
restore(struct session *session, struct http_request *r, const void *fields)
{
	const struct request_restore *body = fields;
	struct session_request *request = api_call_request(r, REQUEST_RESTORE, -1);

	if (request != NULL)
		post(session, request, body->restore_url.text, "");
}

void
api_save(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {sizeof(struct request_save), parse_save, save};

	api_call_serve(s, r, &call);
}

void
api_verify(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {sizeof(struct request_verify), parse_verify, verify};

	api_call_serve(s, r, &call);
}

void
api_restore(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {
	    sizeof(struct request_restore), parse_restore, restore};

	api_call_serve(s, r, &call);
}
