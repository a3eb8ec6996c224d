/* Requests without a client: their answers go to a sink. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/monotonic.h"
#include "supervisor/http/http_conn.h"

/* What a connection still asks of the request that it answers. */
static int
leave_head(struct http_request *r, const struct http_head *head)
{
	char *method = strdup(head->method);

	if (method == NULL)
		return -ENOMEM;
	r->head = (struct http_head){.memory = method,
	    .method = method,
	    .minor = head->minor,
	    .keep_alive = head->keep_alive};
	return 0;
}

struct http_request *
http_detach(struct http_request *r, http_sink *sink, void *ctx)
{
	struct http_request *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	if (r == NULL) {
		d->body.fd = -1;
		d->label = "detached";
		d->begun = monotonic_seconds();
	} else {
		*d = *r;
		if (leave_head(r, &d->head) != 0) {
			free(d);
			return NULL;
		}
		r->body = (struct http_body){.kind = HTTP_BODY_DISCARD, .fd = -1};
		r->param = r->query = NULL;
		r->arg_count = 0;
		d->server->request_count++;
	}
	d->conn = NULL;
	d->headers = NULL;
	d->data = NULL;
	d->gone = NULL;
	d->end = NULL;
	d->sink = sink;
	d->sink_ctx = ctx;
	return d;
}

void *
http_sink_context(const struct http_request *r)
{
	return r->sink != NULL ? r->sink_ctx : NULL;
}

void
http_abandon(struct http_request *r)
{
	http_request_free(r);
}

void
http_reply_answer(struct http_request *r, const struct http_answer *answer)
{
	const char *line = answer->headers, *end;

	for (; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
		char *copy = strndup(line, (size_t)(end - line)), *value;

		value = copy == NULL ? NULL : strstr(copy, ": ");
		if (value != NULL) {
			*value = '\0';
			http_add_header(r, copy, value + 2);
		}
		if (copy == NULL && r->conn != NULL)
			r->conn->broken = true;
		free(copy);
	}
	if (answer->type == NULL) {
		http_reply_empty(r, answer->status);
	} else if (answer->fd < 0) {
		http_reply_json(r, answer->status, answer->body, answer->len);
	} else {
		int fd = fcntl(answer->fd, F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			http_reply_detail(r, 503, "stepd has no descriptor left for the answer");
		else
			http_reply_fd(
			    r, answer->status, answer->type, fd, answer->off, answer->len);
	}
}
