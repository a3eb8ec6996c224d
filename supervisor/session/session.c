#include "supervisor/session/session.h"

#include <errno.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/http/http.h"
#include "supervisor/session/session_action.h"
#include "supervisor/status/events.h"

enum { WAITING_MAX = 256 };

#define SESSION_NAME(name, text, ...) text,
static const char *const state_names[] = {SESSION_STATE_LIST(SESSION_NAME)};
#undef SESSION_NAME

const char *
session_state_name(enum session_state state)
{
	return state_names[state];
}

struct session *
session_new(struct stepd *stepd)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->stepd = stepd;
	s->state = SESSION_DOWNLOADING;
	s->last = &s->first;
	s->spool = -1;
	s->refusal.fd = -1;
	s->outcome.fd = -1;
	datum_log_init(&s->datums);
	datum_file_init(&s->datum_file);
	anchor_init(&s->anchor);
	if (session_restore_init(s) != 0) {
		session_free(s);
		return NULL;
	}
	return s;
}

/* Of a request that nobody answers any more. */
static void
drop_request(struct session_request *request)
{
	if (request != NULL && !request->of_operation)
		http_abandon(request->http);
	session_request_free(request);
}

void
session_free(struct session *s)
{
	if (s == NULL)
		return;
	events_forget(s);
	transfer_cancel(s->transfer);
	child_free(s->child);
	slot_release(s->slot);
	drop_request(s->current);
	while (s->first != NULL) {
		struct session_request *request = s->first;

		s->first = request->next;
		drop_request(request);
	}
	if (s->spool >= 0)
		close(s->spool);
	if (s->refusal.fd >= 0)
		close(s->refusal.fd);
	if (s->outcome.fd >= 0)
		close(s->outcome.fd);
	if (s->restore.timer != NULL)
		event_free(s->restore.timer);
	upload_fini(&s->upload);
	upload_fini(&s->outcome.upload);
	anchor_fini(&s->anchor);
	datum_log_fini(&s->datums);
	datum_file_fini(&s->datum_file);
	free(s);
}

/* Whoever gave up waiting asks again: what has not begun is not done for nobody, least of all a
   step that is then taken twice. With a key the second request is the first one, and closing is
   meant also by who does not wait for it. */
static void
on_client_gone(struct http_request *http, void *data)
{
	struct session_request **at, *request;
	struct session *s = data;

	for (at = &s->first; (request = *at) != NULL; at = &request->next) {
		if (request->http != http)
			continue;
		if (request->key != NULL || request->kind == REQUEST_CLOSE)
			return;
		*at = request->next;
		if (*at == NULL)
			s->last = at;
		s->waiting--;
		session_refuse(
		    s, request, 503, "the client went before its turn; nothing was done");
		return;
	}
}

void
session_post(struct session *s, struct session_request *request)
{
	struct session_input none = {0};

	if (session_answer_again(s, request))
		return;
	if (s->waiting >= WAITING_MAX) {
		http_reply_detail(request->http, 503, "too many requests wait for this session");
		session_request_free(request);
		return;
	}
	*s->last = request;
	s->last = &request->next;
	s->waiting++;
	http_set_data(request->http, s);
	http_on_gone(request->http, on_client_gone);
	session_event(s, EV_REQUEST, &none);
}

struct session_request *
session_take(struct session *s)
{
	struct session_request *request = s->first;

	if (request == NULL)
		return NULL;
	s->first = request->next;
	if (s->first == NULL)
		s->last = &s->first;
	s->waiting--;
	request->next = NULL;
	return request;
}

struct session_request *
session_request_new(enum request_kind kind, struct http_request *http, int fd)
{
	struct session_request *request = calloc(1, sizeof(*request));

	if (request == NULL) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*request = (struct session_request){
	    .kind = kind, .http = http, .of_operation = http_sink_context(http) != NULL, .fd = fd};
	return request;
}

void
session_request_free(struct session_request *request)
{
	if (request == NULL)
		return;
	if (request->fd >= 0)
		close(request->fd);
	if (request->url != NULL) {
		sodium_memzero(request->url, strlen(request->url));
		free(request->url);
	}
	if (request->restore_url != NULL) {
		sodium_memzero(request->restore_url, strlen(request->restore_url));
		free(request->restore_url);
	}
	free(request->key);
	free(request);
}
