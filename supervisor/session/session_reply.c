/* Answers to clients. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "supervisor/http/http.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/session_status.h"
#include "supervisor/stepd.h"

static void
add_step(struct session *s, struct http_request *http)
{
	char step[32];

	snprintf(step, sizeof(step), "%llu", (unsigned long long)s->record.step);
	http_add_header(http, "Stepd-Step", step);
}

/* When a 503 is worth sending again. A session that needs somebody does not come back by waiting.
 */
static void
add_retry(struct session *s, struct http_request *http, unsigned status)
{
	bool later = s->stepd->stopping || s->restore.waits_for_device;

	if (status == 503 &&
	    (later || (s->state != SESSION_NEEDS_RESTORE && s->state != SESSION_AWAITING)))
		http_add_header(http, "Retry-After", later ? "30" : "2");
}

/* The request under way, which ends here. */
static struct http_request *
end_current(struct session *s)
{
	struct http_request *http = s->current->http;

	session_request_free(s->current);
	s->current = NULL;
	add_step(s, http);
	return http;
}

void
session_reply_json(struct session *s, unsigned status, const char *json, size_t len)
{
	struct http_request *http = end_current(s);

	if (json == NULL)
		http_reply_detail(http, 503, "stepd has no memory left for the answer");
	else
		http_reply_json(http, status, json, len);
}

void
session_reply_detail(struct session *s, unsigned status, const char *sentence)
{
	struct http_request *http = end_current(s);

	add_retry(s, http, status);
	http_reply_detail(http, status, sentence);
}

void
session_reply_failed(struct session *s, const struct message_failed *failed, int fd)
{
	struct blob_view view = {.len = 0};

	if (fd < 0 || blob_map_most(&view, fd, FAILED_MAX) != 0 || view.len == 0) {
		session_reply_detail(s, failed->status,
		    failed->detail[0] != '\0' ? failed->detail : "the worker refused the request");
		return;
	}
	http_reply_detail_json(end_current(s), failed->status, view.data, view.len);
	blob_unmap(&view);
}

void
session_reply_blob(struct session *s, int fd, uint64_t offset, uint64_t len)
{
	http_reply_fd(end_current(s), 200, "application/json", fd, offset, len);
}

void
session_reply_status(struct session *s)
{
	struct json_writer w;
	const char *json;
	size_t len = 0;

	json_writer_init(&w);
	session_status_write(s, &w);
	json = json_writer_text(&w, &len);
	session_reply_json(s, 200, json, len);
	json_writer_fini(&w);
}

void
session_refuse(
    struct session *s, struct session_request *request, unsigned status, const char *sentence)
{
	add_step(s, request->http);
	add_retry(s, request->http, status);
	http_reply_detail(request->http, status, sentence);
	session_request_free(request);
}

const char *
session_lost_sentence(const struct session *s)
{
	static char sentence[256];
	const char *next = "restore it, or open a new session from a saved state";
	const char *why = s->stopping ? "stepd stops" : "stepd was started again";

	if (s->stopping)
		next = "the next stepd brings it back; send the request again then";
	else if (s->restore.waits_for_device)
		next = "it comes back when its device computes again; send the request again then";
	else if (s->state == SESSION_RESTORING)
		next = "another one is tried; send the request again later";

	snprintf(sentence, sizeof(sentence),
	    "the session has no worker (%s%s); it was at step %llu, saved at step %llu: %s",
	    s->record.reason[0] != '\0' ? "the worker " : why, s->record.reason,
	    (unsigned long long)s->record.step, (unsigned long long)s->record.saved_step, next);
	return sentence;
}
