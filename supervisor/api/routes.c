#include "supervisor/api/routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/operations.h"
#include "supervisor/http/auth.h"
#include "supervisor/http/backoff.h"
#include "supervisor/settings/config.h"
#include "supervisor/http/http_server.h"
#include "supervisor/store/objects.h"
#include "supervisor/http/percent.h"

static const struct route routes[] = {
    {"GET", "/healthz", CALLER_ANYONE, BODY_NONE, NULL, api_healthz, LATER_NO},
    {"POST", "/v1/sessions", CALLER_TOKEN, BODY_MEMORY, NULL, api_session_open, LATER_KEPT},
    {"GET", "/v1/sessions", CALLER_TOKEN, BODY_NONE, NULL, api_sessions_list, LATER_NO},
    {"GET", "/v1/sessions/{id}", CALLER_TOKEN, BODY_NONE, NULL, api_session_get, LATER_NO},
    {"GET", "/v1/sessions/{id}/events", CALLER_TOKEN, BODY_NONE, NULL, api_session_events,
	LATER_NO},
    {"DELETE", "/v1/sessions/{id}", CALLER_TOKEN, BODY_NONE, NULL, api_session_close, LATER_KEPT},
    {"POST", "/v1/sessions/{id}/datums:render", CALLER_TOKEN, BODY_MEMORY, NULL, api_render,
	LATER_MEMORY},
    {"POST", "/v1/sessions/{id}/batches:train", CALLER_TOKEN, BODY_MEMORY, NULL, api_train,
	LATER_KEPT},
    {"POST", "/v1/sessions/{id}/artifacts:save", CALLER_TOKEN, BODY_MEMORY, NULL, api_save,
	LATER_KEPT},
    {"POST", "/v1/sessions/{id}/samples:generate", CALLER_TOKEN, BODY_MEMORY, NULL, api_generate,
	LATER_MEMORY},
    {"POST", "/v1/sessions/{id}/datums:evaluate", CALLER_TOKEN, BODY_MEMORY, NULL, api_evaluate,
	LATER_KEPT},
    {"POST", "/v1/sessions/{id}/artifacts:verify", CALLER_TOKEN, BODY_MEMORY, NULL, api_verify,
	LATER_KEPT},
    {"GET", "/v1/operations/{id}", CALLER_TOKEN, BODY_NONE, NULL, api_operation_get, LATER_NO},
    {"POST", "/v1/sessions/{id}:restore", CALLER_TOKEN, BODY_MEMORY, NULL, api_restore,
	LATER_MEMORY},
    {"POST", "/v1/objects:sign", CALLER_TOKEN, BODY_MEMORY, NULL, api_objects_sign, LATER_NO},
    {"PUT", "/v1/objects/{id}", CALLER_SIGNED, BODY_FILE, api_object_put_begin, api_object_put,
	LATER_NO},
    {"GET", "/v1/objects/{id}", CALLER_SIGNED, BODY_NONE, api_object_get_begin, api_object_get,
	LATER_NO},
    {"DELETE", "/v1/objects/{id}", CALLER_TOKEN, BODY_NONE, NULL, api_object_delete, LATER_NO},
};

enum {
	ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]),
	BODY_NONE_MAX = 64 * 1024,
	LOG_PAUSE_MS = 60000
};

/* What stands for the hole before `suffix` (len bytes of it): "" where it does not fit, NULL
   without memory. */
static char *
take_param(const char *segment, const char *suffix, size_t len)
{
	size_t size = strlen(segment);

	if (size < len || memcmp(segment + size - len, suffix, len) != 0)
		return strdup("");
	return strndup(segment, size - len);
}

int
route_match(const char *pattern, const char *path, char **param)
{
	static const char hole[] = "{id}";
	static const size_t hole_len = sizeof(hole) - 1;
	char *decoded = strdup(path), *rest = decoded, *segment;
	int rc = decoded != NULL;

	*param = NULL;
	while (rc == 1 && (segment = strsep(&rest, "/")) != NULL) {
		size_t len = strcspn(pattern, "/");

		if (percent_decode(segment) != 0) {
			rc = 0;
		} else if (len >= hole_len && strncmp(pattern, hole, hole_len) == 0) {
			*param = take_param(segment, pattern + hole_len, len - hole_len);
			if (*param == NULL)
				rc = -ENOMEM;
			else if (**param == '\0')
				rc = 0;
		} else if (strlen(segment) != len || memcmp(segment, pattern, len) != 0) {
			rc = 0;
		}
		pattern += len;
		/* both go on, or both end here */
		if (rc == 1 && (*pattern == '/') != (rest != NULL))
			rc = 0;
		pattern += *pattern == '/';
	}
	if (rc != 1) {
		free(*param);
		*param = NULL;
	}
	free(decoded);
	return rc;
}

/* HEAD is GET without the bytes. */
static bool
serves(const struct route *route, const char *method)
{
	return strcmp(route->method, method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* The route of a request, or NULL after a reply. */
static const struct route *
find(struct http_request *r, char **param)
{
	char allow[64] = "";

	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		int rc = route_match(routes[i].pattern, http_path(r), param);
		size_t len = strlen(allow);

		if (rc < 0) {
			http_reply_detail(r, 503, api_no_memory);
			return NULL;
		}
		if (rc == 1 && serves(&routes[i], http_method(r)))
			return &routes[i];
		if (rc == 1)
			snprintf(allow + len, sizeof(allow) - len, "%s%s%s", len > 0 ? ", " : "",
			    routes[i].method, strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "");
		free(*param);
		*param = NULL;
	}
	if (*allow == '\0') {
		http_reply_detail(r, 404, "Not Found");
	} else {
		http_add_header(r, "Allow", allow);
		http_reply_detail(r, 405, "Method Not Allowed");
	}
	return NULL;
}

/* A wrong token is told so late: the more there were from its address, the later. Not sooner with
   another status: whoever waits is told what the contract says, and who shares an address with a
   guesser is never asked to come back, for a right token passes at once, always. */
static void
refuse_token(struct stepd *s, struct http_request *r)
{
	static const char sentence[] = "invalid trainer authorization";
	static uint64_t told = 0; /* at most a line a minute, whoever knocks */
	uint64_t now = (uint64_t)(monotonic_seconds() * 1000);
	bool news;
	unsigned wait = backoff_wrong(s->backoff, http_origin(r), now, &news);

	if (news && (told == 0 || now - told >= LOG_PAUSE_MS)) {
		told = now;
		log_warning("wrong tokens from %s: answers to them are delayed", http_peer(r));
	}
	http_add_header(r, "WWW-Authenticate", "Bearer");
	if (wait == 0)
		http_reply_detail(r, 401, sentence);
	else
		http_refuse_late(r, wait, 401, sentence);
}

/* 0, or -1 after a reply. */
static int
may_pass(struct stepd *s, struct http_request *r, const struct route *route)
{
	const char *coding = http_header(r, "content-encoding"), *name = NULL;

	if (route->caller == CALLER_TOKEN) {
		name = auth_name(r, s->tokens);
		if (name == NULL) {
			refuse_token(s, r);
			return -1;
		}
		http_trust(r, name);
	}
	if (s->stopping && strcmp(route->method, "GET") != 0) {
		http_add_header(r, "Retry-After", "30");
		http_reply_detail(r, 503, "the trainer is stopping");
		return -1;
	}
	if (route->body != BODY_NONE && coding != NULL && strcasecmp(coding, "identity") != 0) {
		http_reply_detail(r, 415, "the body must come without a Content-Encoding");
		return -1;
	}
	return 0;
}

int
routes_judge(void *arg, struct http_request *r, struct http_plan *plan)
{
	struct stepd *s = arg;
	char *param;
	const struct route *route = find(r, &param);
	struct route_sink sink = {.fd = -1};

	if (route == NULL)
		return -1;
	http_set_route(r, route, param, route->pattern);
	if (may_pass(s, r, route) != 0)
		return -1;
	if (route->begin != NULL && route->begin(s, r, &sink) != 0)
		return -1;
	switch (route->body) {
	case BODY_NONE:
		plan->body = HTTP_BODY_DISCARD;
		plan->limit = BODY_NONE_MAX;
		break;
	case BODY_MEMORY:
		plan->body = HTTP_BODY_MEMORY;
		plan->limit = s->config->body_limit;
		break;
	case BODY_FILE:
		plan->body = HTTP_BODY_FILE;
		plan->fd = sink.fd;
		plan->limit = sink.limit;
		plan->needs_length = true;
		break;
	}
	return 0;
}

void
routes_handle(void *arg, struct http_request *r)
{
	const struct route *route = http_route(r);
	char call[OPERATION_CALL_SIZE];

	if (route->later == LATER_NO || !operation_wanted(r)) {
		route->handle(arg, r);
		return;
	}
	snprintf(call, sizeof(call), "%s %s", route->method, route->pattern);
	operation_run(arg, r, call, route->later == LATER_MEMORY, route->handle);
}
