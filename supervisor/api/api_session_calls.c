/* The calls of a session about datums and steps: datums:render, batches:train, samples:generate,
   datums:evaluate. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/request_render.h"
#include "ipc/wire.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/request_evaluate.h"
#include "supervisor/api/request_train.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/sessions.h"

/* Hands the body to the session's worker as it came. */
static void
pass_body(struct session *session, struct http_request *r, enum request_kind kind)
{
	struct session_request *request = api_call_request(r, kind, -1);

	if (request == NULL)
		return;
	request->fd = http_body_take(r);
	api_call_post(session, request);
}

/* A body that its worker reads is judged here only where it never reaches one. */
static void
serve_unread(struct stepd *s, struct http_request *r, const struct api_call *call)
{
	struct session *session = sessions_find(s, http_param(r));

	if (session != NULL && http_is_json(r) && http_body_len(r) > 0)
		call->serve(session, r, NULL);
	else
		api_call_serve(s, r, call);
}

static void
parse_render(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	(void)s;
	request_render_parse(doc, fields, f);
}

static void
render(struct session *session, struct http_request *r, const void *fields)
{
	(void)fields;
	pass_body(session, r, REQUEST_RENDER);
}

static void
parse_generate(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	(void)s;
	request_generate_parse(doc, fields, f);
}

static void
generate(struct session *session, struct http_request *r, const void *fields)
{
	(void)fields;
	pass_body(session, r, REQUEST_GENERATE);
}

/* The datum ids as the worker reads them: u32 count, wire strings. fd or -errno. */
static int
ids_blob(struct json ids, size_t count)
{
	size_t size = 4, len;
	struct wire_put w;
	void *storage;
	int fd;

	json_foreach (id, ids) {
		json_string(id, &len);
		size += 4 + len + 1;
	}
	storage = malloc(size);
	if (storage == NULL || count > UINT32_MAX) {
		free(storage);
		return -ENOMEM;
	}
	wire_put_init(&w, storage, size);
	wire_put_u32(&w, (uint32_t)count);
	json_foreach (id, ids)
		wire_put_string(&w, json_string(id, NULL));
	fd = wire_put_end(&w) < 0 ? -EMSGSIZE : blob_from("datum-ids", storage, w.len);
	free(storage);
	return fd;
}

/* A request with its datum ids. NULL after a reply. */
static struct session_request *
ids_request(struct http_request *r, enum request_kind kind, struct json ids, size_t count)
{
	int fd = ids_blob(ids, count);

	if (fd >= 0)
		return api_call_request(r, kind, fd);
	http_reply_detail(r, 503, api_no_memory);
	return NULL;
}

static void
parse_train(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	(void)s;
	request_train_parse(doc, fields, f);
}

static void
train(struct session *session, struct http_request *r, const void *fields)
{
	const struct request_train *body = fields;
	struct session_request *request =
	    ids_request(r, REQUEST_TRAIN, body->datum_ids, body->count);

	if (request == NULL)
		return;
	request->learning_rate = body->learning_rate;
	api_call_post(session, request);
}

static void
parse_evaluate(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	(void)s;
	request_evaluate_parse(doc, fields, f);
}

static void
evaluate(struct session *session, struct http_request *r, const void *fields)
{
	const struct request_evaluate *body = fields;
	struct session_request *request =
	    ids_request(r, REQUEST_EVALUATE, body->datum_ids, body->count);

	if (request != NULL)
		api_call_post(session, request);
}

void
api_render(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {sizeof(struct request_render), parse_render, render};

	serve_unread(s, r, &call);
}

void
api_generate(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {
	    sizeof(struct request_generate), parse_generate, generate};

	serve_unread(s, r, &call);
}

void
api_train(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {sizeof(struct request_train), parse_train, train};

	api_call_serve(s, r, &call);
}

void
api_evaluate(struct stepd *s, struct http_request *r)
{
	static const struct api_call call = {
	    sizeof(struct request_evaluate), parse_evaluate, evaluate};

	api_call_serve(s, r, &call);
}
