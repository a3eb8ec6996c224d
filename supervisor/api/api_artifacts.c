/* The calls of a session that name a URL: artifacts:save, artifacts:verify, :restore. */
#include <stdlib.h>
#include <string.h>

#include "supervisor/api/api_body.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/request_restore.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_verify.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/sessions.h"
#include "supervisor/store/objects.h"
#include "supervisor/transfer/url_field.h"

static void
save(struct session *session, struct http_request *r, const struct request_save *body)
{
	struct session_request *request = api_call_request(r, REQUEST_SAVE, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	request->url = strdup(body->upload_url.text);
	if (body->restore_url.text[0] != '\0')
		request->restore_url = strdup(body->restore_url.text);
	if (request->url == NULL ||
	    (body->restore_url.text[0] != '\0' && request->restore_url == NULL)) {
		session_request_free(request);
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	api_call_post(session, request);
}

/* http URLs are good only if they are our own objects. */
static void
check_plain(struct stepd *s, const struct request_save *body, struct faults *f)
{
	struct object_ref ref;

	if (body->upload_url.plain &&
	    objects_resolve(s, body->upload_url.text, OBJECT_PUT, &ref) == 0)
		url_fault_plain(f, "upload_url");
	if (body->restore_url.plain &&
	    objects_resolve(s, body->restore_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(f, "restore_url");
}

void
api_save(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_save *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, api_no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_save_parse(doc, body, &f) == 0)
		check_plain(s, body, &f);
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, api_not_found);
	else
		save(session, r, body);
	faults_fini(&f);
	json_free(doc);
	free(body);
}

static void
verify(struct session *session, struct http_request *r, const struct request_verify *body)
{
	struct session_request *request = api_call_request(r, REQUEST_VERIFY, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	request->size = body->size_bytes;
	if (body->sha256 != NULL)
		memcpy(request->sha256, body->sha256, sizeof(request->sha256));
	request->url = strdup(body->download_url.text);
	if (request->url == NULL) {
		session_request_free(request);
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	api_call_post(session, request);
}

void
api_verify(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_verify *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct object_ref ref;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, api_no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_verify_parse(doc, body, &f) == 0 && body->download_url.plain &&
	    objects_resolve(s, body->download_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(&f, "download_url");
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, api_not_found);
	else
		verify(session, r, body);
	faults_fini(&f);
	json_free(doc);
	free(body);
}

static void
restore(struct session *session, struct http_request *r, const struct url *url)
{
	struct session_request *request = api_call_request(r, REQUEST_RESTORE, -1);

	if (request != NULL && url->text[0] != '\0') {
		request->url = strdup(url->text);
		if (request->url == NULL) {
			session_request_free(request);
			http_reply_detail(r, 503, api_no_memory);
			return;
		}
	}
	if (request != NULL)
		api_call_post(session, request);
}

void
api_restore(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_restore *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct object_ref ref;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, api_no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_restore_parse(doc, body, &f) == 0 && body->restore_url.plain &&
	    objects_resolve(s, body->restore_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(&f, "restore_url");
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, api_not_found);
	else
		restore(session, r, &body->restore_url);
	faults_fini(&f);
	json_free(doc);
	free(body);
}
