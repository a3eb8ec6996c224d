/* The calls that a session answers: datums:render, batches:train, artifacts:save,
   samples:generate, datums:evaluate, artifacts:verify. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/request_render.h"
#include "ipc/wire.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/api_key.h"
#include "supervisor/api/operations.h"
#include "supervisor/store/objects.h"
#include "supervisor/api/request_evaluate.h"
#include "supervisor/api/request_restore.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_train.h"
#include "supervisor/api/request_verify.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/sessions.h"
#include "supervisor/transfer/url_field.h"

static const char not_found[] = "training session not found";
static const char no_memory[] = "stepd has no memory left for the request";

/* What changes nothing keeps no answer: it is asked again. */
static bool
keeps_answer(enum request_kind kind)
{
	return kind != REQUEST_GENERATE && kind != REQUEST_EVALUATE && kind != REQUEST_VERIFY &&
	       kind != REQUEST_RESTORE;
}

/* A request with its Idempotency-Key, where it has one. Consumes fd. NULL after a reply. */
static struct session_request *
make_request(struct http_request *r, enum request_kind kind, int fd)
{
	struct session_request *request = session_request_new(kind, r, fd);

	if (request == NULL) {
		http_reply_detail(r, 503, no_memory);
	} else if (api_key_take(r, request) != 0) {
		session_request_free(request);
		request = NULL;
	} else if (!keeps_answer(kind)) {
		free(request->key);
		request->key = NULL;
	}
	return request;
}

/* Passes a request on to its session. */
static void
post(struct session *session, struct session_request *request)
{
	operation_describe(request);
	session_post(session, request);
}

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
		http_reply_detail(r, 404, not_found);
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
	request = make_request(r, kind, -1);
	if (request != NULL)
		request->fd = http_body_take(r);
	if (request != NULL)
		post(session, request);
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
		http_reply_detail(r, 503, no_memory);
		return;
	}
	request = make_request(r, REQUEST_TRAIN, fd);
	if (request == NULL)
		return;
	request->learning_rate = body->learning_rate;
	post(session, request);
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
		http_reply_detail(r, 404, not_found);
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
		http_reply_detail(r, 503, no_memory);
		return;
	}
	request = make_request(r, REQUEST_EVALUATE, fd);
	if (request != NULL)
		post(session, request);
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
		http_reply_detail(r, 404, not_found);
	else
		evaluate(session, r, &body);
	faults_fini(&f);
	json_free(doc);
}

static void
save(struct session *session, struct http_request *r, const struct request_save *body)
{
	struct session_request *request = make_request(r, REQUEST_SAVE, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	request->url = strdup(body->upload_url.text);
	if (body->restore_url.text[0] != '\0')
		request->restore_url = strdup(body->restore_url.text);
	if (request->url == NULL ||
	    (body->restore_url.text[0] != '\0' && request->restore_url == NULL)) {
		session_request_free(request);
		http_reply_detail(r, 503, no_memory);
		return;
	}
	post(session, request);
}

/* http URLs are good only if they are our own objects. */
static void
check_plain(struct stepd *s, const struct request_save *body, struct faults *f)
{
	struct object_ref ref;

	if (body->upload_url.plain &&
	    objects_resolve(s, body->upload_url.text, OBJECT_PUT, &ref) == 0)
		url_fault_plain(f, "upload_url");
	if (body->restore_url.plain &&
	    objects_resolve(s, body->restore_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(f, "restore_url");
}

void
api_save(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_save *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_save_parse(doc, body, &f) == 0)
		check_plain(s, body, &f);
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, not_found);
	else
		save(session, r, body);
	faults_fini(&f);
	json_free(doc);
	free(body);
}

static void
verify(struct session *session, struct http_request *r, const struct request_verify *body)
{
	struct session_request *request = make_request(r, REQUEST_VERIFY, -1);

	if (request == NULL)
		return;
	request->artifact = (uint8_t)body->kind;
	request->size = body->size_bytes;
	if (body->sha256 != NULL)
		memcpy(request->sha256, body->sha256, sizeof(request->sha256));
	request->url = strdup(body->download_url.text);
	if (request->url == NULL) {
		session_request_free(request);
		http_reply_detail(r, 503, no_memory);
		return;
	}
	post(session, request);
}

void
api_verify(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_verify *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct object_ref ref;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_verify_parse(doc, body, &f) == 0 && body->download_url.plain &&
	    objects_resolve(s, body->download_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(&f, "download_url");
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, not_found);
	else
		verify(session, r, body);
	faults_fini(&f);
	json_free(doc);
	free(body);
}

static void
restore(struct session *session, struct http_request *r, const struct url *url)
{
	struct session_request *request = make_request(r, REQUEST_RESTORE, -1);

	if (request != NULL && url->text[0] != '\0') {
		request->url = strdup(url->text);
		if (request->url == NULL) {
			session_request_free(request);
			http_reply_detail(r, 503, no_memory);
			return;
		}
	}
	if (request != NULL)
		post(session, request);
}

void
api_restore(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	struct request_restore *body = malloc(sizeof(*body));
	struct json_doc *doc = NULL;
	struct object_ref ref;
	struct faults f;

	faults_init(&f);
	if (body == NULL)
		faults_refuse(&f, 503, no_memory);
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL && request_restore_parse(doc, body, &f) == 0 && body->restore_url.plain &&
	    objects_resolve(s, body->restore_url.text, OBJECT_GET, &ref) == 0)
		url_fault_plain(&f, "restore_url");
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (session == NULL)
		http_reply_detail(r, 404, not_found);
	else
		restore(session, r, &body->restore_url);
	faults_fini(&f);
	json_free(doc);
	free(body);
}
