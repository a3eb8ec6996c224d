/* POST /v1/sessions, and what is told about sessions: GET, and DELETE. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/message.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/api_key.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/models.h"
#include "supervisor/api/operations.h"
#include "supervisor/api/request_open.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"

static const char no_memory[] = "stepd has no memory left for a session";

static void
fill_record(struct session_record *r, const struct request_open *open)
{
	snprintf(r->base_model, sizeof(r->base_model), "%s", open->base_model);
	snprintf(r->model_revision, sizeof(r->model_revision), "%s",
	    open->model_revision == NULL ? "" : open->model_revision);
	snprintf(r->target_modules, sizeof(r->target_modules), "%s", open->target_modules);
	r->lora_rank = open->lora_rank;
	r->seed = open->seed;
	r->maximum_datum_tokens = open->maximum_datum_tokens;
	r->lora_alpha = open->lora_alpha;
	r->lora_dropout = open->lora_dropout;
	r->weight_decay = open->weight_decay;
	r->beta1 = open->beta1;
	r->beta2 = open->beta2;
	r->epsilon = open->epsilon;
	r->max_grad_norm = open->max_grad_norm;
}

/* The opening request with its URL. NULL: no memory. */
static struct session_request *
opening(struct http_request *r, const struct request_open *open)
{
	struct session_request *request = session_request_new(REQUEST_OPEN, r, -1);
	const char *url = NULL;

	if (request == NULL)
		return NULL;
	if (open->resume_download_url.text[0] != '\0') {
		request->artifact = ARTIFACT_STATE;
		url = open->resume_download_url.text;
	} else if (open->sampling_download_url.text[0] != '\0') {
		request->artifact = ARTIFACT_SAMPLING;
		url = open->sampling_download_url.text;
	}
	if (url == NULL)
		return request;
	request->url = strdup(url);
	if (request->url == NULL) {
		session_request_free(request);
		return NULL;
	}
	return request;
}

/* Slot, then model, then the session begins. Consumes the request. */
static void
begin_session(struct stepd *s, struct session_request *request, const struct request_open *open)
{
	struct model_dirs dirs = {s->config->model_dir, s->config->hf_home};
	const char *sentence;
	struct session *session;
	unsigned status;
	int error;

	session = sessions_new(s, &status, &sentence);
	if (session == NULL) {
		http_reply_detail(request->http, status, sentence);
		session_request_free(request);
		return;
	}
	fill_record(&session->record, open);
	error = models_find(
	    &dirs, open->base_model, open->model_revision, session->model_path, &sentence);
	if (error != 0) {
		sessions_remove(session);
		http_reply_detail(request->http, error == -EAGAIN ? 503 : 422, sentence);
		session_request_free(request);
		return;
	}
	operation_describe(request);
	session_open(session, request);
}

/* 0, or -1 after a reply. */
static int
take_own_key(struct stepd *s, struct http_request *r, struct session_request *request)
{
	char key[API_OWN_KEY_SIZE];

	if (api_own_key(s, r, key) != 0)
		return -1;
	if (key[0] == '\0')
		return 0;
	request->key = strdup(key);
	if (request->key != NULL && api_digest(r, request->digest) == 0)
		return 0;
	http_reply_detail(r, 503, no_memory);
	return -1;
}

/* The request is valid: the session that its key has opened, or a new one. */
static void
open_session(struct stepd *s, struct http_request *r, const struct request_open *open)
{
	struct session_request *request = opening(r, open);

	if (request == NULL) {
		http_reply_detail(r, 503, no_memory);
		return;
	}
	if (take_own_key(s, r, request) != 0) {
		session_request_free(request);
		return;
	}
	if (!sessions_open_again(s, request))
		begin_session(s, request, open);
}

static void
parse_open(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	struct request_open *open = fields;

	request_open_defaults(open);
	if (request_open_parse(doc, open, f) != 0)
		return;
	api_body_check_url(s, &open->resume_download_url, "resume_download_url", OBJECT_GET, f);
	api_body_check_url(s, &open->sampling_download_url, "sampling_download_url", OBJECT_GET, f);
}

void
api_session_open(struct stepd *s, struct http_request *r)
{
	struct api_body body;

	if (api_body_read(&body, s, r, sizeof(struct request_open), parse_open))
		open_session(s, r, body.fields);
	api_body_fini(&body);
}

static void
reply(struct http_request *r, struct json_writer *w)
{
	size_t len = 0;
	const char *json = json_writer_text(w, &len);

	if (json != NULL)
		http_reply_json(r, 200, json, len);
	else
		http_reply_detail(r, 503, "stepd has no memory left for the answer");
	json_writer_fini(w);
}

void
api_sessions_list(struct stepd *s, struct http_request *r)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "sessions");
	json_write_array(&w);
	for (struct session *at = s->sessions->first; at != NULL; at = at->next)
		session_status_write(at, &w);
	json_write_array_end(&w);
	json_write_object_end(&w);
	reply(r, &w);
}

void
api_session_get(struct stepd *s, struct http_request *r)
{
	struct session *session = api_session(s, r);
	struct json_writer w;

	if (session == NULL)
		return;
	json_writer_init(&w);
	session_status_write(session, &w);
	reply(r, &w);
}

void
api_session_close(struct stepd *s, struct http_request *r)
{
	struct session *session = api_session(s, r);
	const char *force = http_query(r, "force");
	struct session_request *request;

	if (session == NULL)
		return;
	if (force != NULL && strcmp(force, "true") != 0 && strcmp(force, "false") != 0) {
		http_reply_detail(r, 422, "force must be true or false");
		return;
	}
	request = api_call_request(r, REQUEST_CLOSE, -1);
	if (request == NULL)
		return;
	request->force = force != NULL && strcmp(force, "true") == 0;
	api_call_post(session, request);
}
