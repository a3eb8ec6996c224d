#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ipc/monotonic.h"
#include "ipc/request_body.h"
#include "supervisor/http/http_conn.h"
#include "supervisor/http/percent.h"

struct http_request *
http_request_new(struct http_conn *c)
{
	struct http_request *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conn = c;
	r->server = c->server;
	r->server->request_count++;
	r->body.fd = -1;
	r->label = "?";
	memcpy(r->peer, c->peer, sizeof(r->peer));
	r->origin = c->origin;
	r->begun = monotonic_seconds();
	return r;
}

void
http_request_free(struct http_request *r)
{
	struct http_server *s;

	if (r == NULL)
		return;
	s = r->server;
	if (r->end != NULL)
		r->end(r->data);
	http_body_fini(r);
	http_head_fini(&r->head);
	free(r->param);
	free(r->query);
	free(r->headers);
	free(r);
	/* the last request whose client has gone outlives the server */
	if (s != NULL && --s->request_count == 0 && s->freed)
		free(s);
}

void
http_set_route(struct http_request *r, const void *route, char *param, const char *label)
{
	r->route = route;
	free(r->param);
	r->param = param;
	r->label = label;
}

const void *
http_route(const struct http_request *r)
{
	return r->route;
}

const char *
http_method(const struct http_request *r)
{
	return r->head.method;
}

const char *
http_path(const struct http_request *r)
{
	return r->head.path;
}

const char *
http_param(const struct http_request *r)
{
	return r->param != NULL ? r->param : "";
}

const char *
http_peer(const struct http_request *r)
{
	return r->peer;
}

const struct in6_addr *
http_origin(const struct http_request *r)
{
	return &r->origin;
}

const char *
http_header(const struct http_request *r, const char *name)
{
	return http_head_get(&r->head, name);
}

const char *
http_header_at(const struct http_request *r, const char *name, size_t i)
{
	for (size_t at = 0; at < r->head.count; at++) {
		if (strcasecmp(r->head.fields[at].name, name) == 0 && i-- == 0)
			return r->head.fields[at].value;
	}
	return NULL;
}

uint64_t
http_content_length(const struct http_request *r)
{
	return r->head.length;
}

size_t
http_header_count(const struct http_request *r, const char *name)
{
	return http_head_count(&r->head, name);
}

/* Cuts the query at & and =; a value that does not decode is left out. */
static void
read_query(struct http_request *r)
{
	char *rest, *arg;

	r->query = strdup(r->head.query);
	rest = r->query;
	while (rest != NULL && r->arg_count < HTTP_ARGS) {
		char *value;

		arg = strsep(&rest, "&");
		value = strchr(arg, '=');
		if (value != NULL)
			*value++ = '\0';
		if (percent_decode(arg) != 0 || (value != NULL && percent_decode(value) != 0))
			continue;
		r->args[r->arg_count++] = (struct http_arg){arg, value != NULL ? value : ""};
	}
}

const char *
http_query(const struct http_request *r, const char *name)
{
	if (r->head.query == NULL)
		return NULL;
	if (r->query == NULL)
		read_query((struct http_request *)r); /* a cache, filled when first asked for */
	for (size_t i = 0; i < r->arg_count; i++)
		if (strcmp(r->args[i].name, name) == 0)
			return r->args[i].value;
	return NULL;
}

const char *
http_query_text(const struct http_request *r)
{
	return r->head.query;
}

bool
http_is_json(const struct http_request *r)
{
	/* Two types are none: which of them counts is anybody's guess. */
	return http_header_count(r, "content-type") == 1 &&
	       request_body_is_json(http_header(r, "content-type"));
}

void
http_set_data(struct http_request *r, void *data)
{
	r->data = data;
}

void *
http_data(const struct http_request *r)
{
	return r->data;
}

void
http_on_gone(struct http_request *r, void (*gone)(struct http_request *r, void *data))
{
	r->gone = gone;
}

void
http_on_end(struct http_request *r, void (*end)(void *data))
{
	r->end = end;
}
