/* The calls of a session about datums and steps: datums:render, batches:train, samples:generate,
   datums:evaluate. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/request_render.h"
#include "ipc/wire.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/request_evaluate.h"
#include "supervisor/api/request_train.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/sessions.h"

/* Bodies that the worker reads are judged here only where they never reach one. 0, or -1 after a
   reply. */
static int
judge_unread(struct stepd *s, struct http_request *r,
    void (*parse)(struct json_doc *doc, struct faults *f), struct session **session)
{
	struct faults f;
	struct json_doc *doc;
	bool refused;

	*session = sessions_find(s, http_param(r));
	if (*session != NULL && http_is_json(r) && http_body_len(r) > 0)
		return 0;
	faults_init(&f);
	doc = api_body_parse(r, &f);
	if (doc != NULL)
		parse(doc, &f);
	refused = faults_any(&f);
	if (refused)
		http_reply_faults(r, &f);
	else if (*session == NULL)
		http_reply_detail(r, 404, api_not_found);
	faults_fini(&f);
	json_free(doc);
	return refused || *session == NULL ? -1 : 0;
}

static void
parse_render(struct json_doc *doc, struct faults *f)
{
	struct request_render render;

	request_render_parse(doc, &render, f);
}

static void
parse_generate(struct json_doc *doc, struct faults *f)
{
	struct request_generate generate;

	request_generate_parse(doc, &generate, f);
}

/* Hands the body to the session's worker as it came. */
static void
pass_body(struct stepd *s, struct http_request *r, enum request_kind kind,
    void (*parse)(struct json_doc *doc, struct faults *f))
{
	struct session_request *request;
	struct session *session;

	if (judge_unread(s, r, parse, &session) != 0)
		return;
	request = api_call_request(r, kind, -1);
	if (request != NULL)
		request->fd = http_body_take(r);
	if (request != NULL)
		api_call_post(session, request);
}

void
api_render(struct stepd *s, struct http_request *r)
{
	pass_body(s, r, REQUEST_RENDER, parse_render);
}

void
api_generate(struct stepd *s, struct http_request *r)
{
	pass_body(s, r, REQUEST_GENERATE, parse_generate);
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

static void
train(struct session *session, struct http_request *r, const struct request_train *body)
{
	struct session_request *request;
	int fd = ids_blob(body->datum_ids, body->count);

	if (fd < 0) {
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	request = api_call_request(r, REQUEST_TRAIN, fd);
	if (request == NULL)
		return;
	request->learning_rate = body->learning_rate;
	api_call_post(session, request);
}

void
api_train(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_train body;
	struct json_doc *doc;
	struct faults f;

	faults_init(&f);
	doc = api_body_parse(r, &f);
	if (doc != NULL)
		request_train_parse(doc, &body, &f);
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, api_not_found);
	else
		train(session, r, &body);
	faults_fini(&f);
	json_free(doc);
}

static void
evaluate(struct session *session, struct http_request *r, const struct request_evaluate *body)
{
	struct session_request *request;
	int fd = ids_blob(body->datum_ids, body->count);

	if (fd < 0) {
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	request = api_call_request(r, REQUEST_EVALUATE, fd);
	if (request != NULL)
		api_call_post(session, request);
}

void
api_evaluate(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_evaluate body;
	struct json_doc *doc;
	struct faults f;

	faults_init(&f);
	doc = api_body_parse(r, &f);
	if (doc != NULL)
		request_evaluate_parse(doc, &body, &f);
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, api_not_found);
	else
		evaluate(session, r, &body);
	faults_fini(&f);
	json_free(doc);
}
