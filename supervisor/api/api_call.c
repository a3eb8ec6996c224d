#include "supervisor/api/api_call.h"

#include <stdlib.h>

#include "supervisor/api/api_key.h"
#include "supervisor/api/operations.h"

const char api_not_found[] = "training session not found";
const char api_no_memory[] = "stepd has no memory left for the request";

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
