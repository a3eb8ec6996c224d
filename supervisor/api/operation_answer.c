/* The answer of an operation, and what is told before there is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/file.h"
#include "ipc/json_write.h"
#include "ipc/log.h"
#include "supervisor/api/operations.h"
#include "supervisor/session/session.h"

/* The body out of the file, which holds more than that. NULL: no memory, or it could not be read.
 */
static char *
read_body(const struct http_answer *answer)
{
	char *body = malloc(answer->len + 1);

	if (body != NULL && file_read_at(answer->fd, body, answer->len, answer->off) == 0)
		return body;
	free(body);
	return NULL;
}

/* Answers that only memory holds have a bound together: the oldest go. */
static void
bound_memory(struct operations *all)
{
	struct operation *o = TAILQ_FIRST(&all->list);

	for (; o != NULL && all->memory > OPERATIONS_MEMORY; o = TAILQ_NEXT(o, link)) {
		if (o->in_memory && o->done)
			operation_drop_body(o);
	}
}

/* A large body is read by many from one file, and is not copied for each. */
static void
keep_body(struct operation *o, char *body, size_t len)
{
	o->len = len;
	o->in_memory = o->text || len > OPERATION_BODY_MAX;
	if (o->in_memory)
		o->stepd->operations->memory += len;
	if (len <= OPERATION_FILE_MIN) {
		o->body = body;
		return;
	}
	o->fd = blob_from("answer", body, len);
	free(body);
	if (o->fd < 0)
		operation_drop_body(o);
}

void
operation_take_answer(struct operation *o, const struct http_answer *answer)
{
	char *body = NULL;

	o->answered = true;
	o->status = answer->status;
	o->headers = strdup(answer->headers);
	if (answer->fd >= 0)
		body = read_body(answer);
	else if ((body = malloc(answer->len + 1)) != NULL && answer->len > 0)
		memcpy(body, answer->body, answer->len);
	if (body != NULL)
		keep_body(o, body, (size_t)answer->len);
	if (o->headers == NULL)
		operation_drop_body(o);
	bound_memory(o->stepd->operations);
}

void
operation_drop_body(struct operation *o)
{
	if (o->in_memory)
		o->stepd->operations->memory -= o->len;
	o->in_memory = false;
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	free(o->body);
	o->body = NULL;
}

static const char *
gone_sentence(const struct operation *o)
{
	switch (o->kind) {
	case REQUEST_OPEN:
	case REQUEST_TRAIN:
	case REQUEST_SAVE:
	case REQUEST_CLOSE:
		return "stepd had no memory for the answer; GET /v1/sessions tells what was done";
	default:
		return "the answer was in memory only and is gone; nothing was lost: send the "
		       "request again";
	}
}

void
operation_reply_answer(struct operation *o, struct http_request *r)
{
	struct http_answer answer = {.status = o->status,
	    .headers = o->headers,
	    .type = "application/json",
	    .body = o->body,
	    .fd = o->fd,
	    .len = o->len};

	http_add_header(r, "Stepd-Operation", o->id);
	if (o->body == NULL && o->fd < 0)
		http_reply_detail(r, 503, gone_sentence(o));
	else
		http_reply_answer(r, &answer);
}

void
operation_reply_accepted(struct operation *o, struct http_request *r)
{
	struct json_writer w;
	const char *json;
	char location[64];
	size_t len = 0;

	snprintf(location, sizeof(location), "/v1/operations/%s", o->id);
	http_add_header(r, "Location", location);
	http_add_header(r, "Stepd-Operation", o->id);
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "operation_id", o->id);
	json_put_bool(&w, "done", o->done);
	json_put_string(&w, "call", o->call);
	json_put_string(&w, "session_id", o->session_id[0] == '\0' ? NULL : o->session_id);
	json_write_object_end(&w);
	json = json_writer_text(&w, &len);
	if (json != NULL)
		http_reply_json(r, 202, json, len);
	else
		http_reply_detail(r, 503, "stepd has no memory left for the answer");
	json_writer_fini(&w);
}
