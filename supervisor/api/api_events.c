/* GET /v1/sessions/{id}/events, with Last-Event-ID or ?after=id to go on from there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/fault.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/sessions.h"
#include "supervisor/status/events.h"
#include "supervisor/stepd.h"

static const struct place place_query = {.key = "query", .key_len = 5};
static const struct place place_after = {.up = &place_query, .key = "after", .key_len = 5};
static const struct place place_header = {.key = "header", .key_len = 6};
static const struct place place_id = {.up = &place_header, .key = "last-event-id", .key_len = 13};

static uint64_t
read_id(const char *text, const struct place *place, struct faults *f)
{
	char *end;
	uint64_t id;

	errno = 0;
	id = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0)
		faults_add(
		    f, place, "int_parsing", "Input should be the id of an event: a whole number");
	return id;
}

void
api_session_events(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	/* Of a browser that comes again the header is newer than its URL. */
	const char *header = http_header(r, "last-event-id"), *query = http_query(r, "after");
	bool resumes = true;
	uint64_t after = 0;
	struct faults f;

	faults_init(&f);
	if (header != NULL && *header != '\0')
		after = read_id(header, &place_id, &f);
	else if (query != NULL)
		after = read_id(query, &place_after, &f);
	else
		resumes = false;
	if (faults_any(&f)) {
		http_reply_faults(r, &f);
	} else if (session == NULL) {
		http_reply_detail(r, 404, sessions_not_found);
	} else if (s->stopping) {
		http_add_header(r, "Retry-After", "30");
		http_reply_detail(r, 503, "the trainer is stopping");
	} else {
		events_listen(session, r, resumes ? &after : NULL);
	}
	faults_fini(&f);
}
