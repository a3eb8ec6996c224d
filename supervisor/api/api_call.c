#include "supervisor/api/api_call.h"

#include <stdlib.h>

#include "supervisor/api/api_key.h"
#include "supervisor/api/operations.h"
#include "supervisor/session/sessions.h"

struct session *
api_session(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));

	if (session == NULL)
		http_reply_detail(r, 404, sessions_not_found);
	return session;
}

void
api_call_serve(struct stepd *s, struct http_request *r, const struct api_call *call)
{
	struct session *session = NULL;
	struct api_body body;

	if (api_body_read(&body, s, r, call->size, call->parse))
		session = api_session(s, r);
	if (session != NULL)
		call->serve(session, r, body.fields);
	api_body_fini(&body);
}

/* What changes nothing keeps no answer: it is asked again. */
static bool
keeps_answer(enum request_kind kind)
{
	return kind != REQUEST_GENERATE && kind != REQUEST_EVALUATE && kind != REQUEST_VERIFY &&
	       kind != REQUEST_RESTORE;
}

struct session_request *
api_call_request(struct http_request *r, enum request_kind kind, int fd)
{
	struct session_request *request = session_request_new(kind, r, fd);

	if (request == NULL) {
		http_reply_detail(r, 503, api_no_memory);
	} else if (api_key_take(r, request) != 0) {
		session_request_free(request);
		request = NULL;
	} else if (!keeps_answer(kind)) {
		free(request->key);
		request->key = NULL;
	}
	return request;
}

void
api_call_post(struct session *session, struct session_request *request)
{
	operation_describe(request);
	session_post(session, request);
}
