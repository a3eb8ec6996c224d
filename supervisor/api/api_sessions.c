/* POST /v1/sessions, and what is told about sessions: GET, and DELETE. */
#include <stdlib.h>
#include <string.h>

#include "ipc/message.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/api_key.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/models.h"
#include "supervisor/store/objects.h"
#include "supervisor/api/operations.h"
#include "supervisor/api/request_open.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"
#include "supervisor/transfer/url_field.h"

static const char not_found[] = "training session not found";

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

/* An http URL is good only if it is one of our own objects. */
static void
check_plain(struct stepd *s, const struct url *url, const char *key, struct faults *f)
{
	struct object_ref ref;

	if (url->plain && objects_resolve(s, url->text, OBJECT_GET, &ref) == 0)
		url_fault_plain(f, key);
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

	session = sessions_new(s, &status, &sentence);
	if (session == NULL) {
		http_reply_detail(request->http, status, sentence);
		session_request_free(request);
		return;
	}
	fill_record(&session->record, open);
	if (models_find(&dirs, open->base_model, open->model_revision, session->model_path,
		&sentence) != 0) {
		sessions_remove(session);
		http_reply_detail(request->http, 422, sentence);
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
	http_reply_detail(r, 503, "stepd has no memory left for a session");
	return -1;
}

/* The request is valid: the session that its key has opened, or a new one. */
static void
open_session(struct stepd *s, struct http_request *r, const struct request_open *open)
{
	struct session_request *request = opening(r, open);

	if (request == NULL) {
		http_reply_detail(r, 503, "stepd has no memory left for a session");
		return;
	}
	if (take_own_key(s, r, request) != 0) {
		session_request_free(request);
		return;
	}
	if (!sessions_open_again(s, request))
		begin_session(s, request, open);
}

void
api_session_open(struct stepd *s, struct http_request *r)
{
	struct request_open *open = malloc(sizeof(*open));
	struct json_doc *doc = NULL;
	struct faults f;

	faults_init(&f);
	if (open == NULL)
		faults_refuse(&f, 503, "stepd has no memory left for a session");
	else
		doc = api_body_parse(r, &f);
	if (doc != NULL) {
		request_open_defaults(open);
		if (request_open_parse(doc, open, &f) == 0) {
			check_plain(s, &open->resume_download_url, "resume_download_url", &f);
			check_plain(s, &open->sampling_download_url, "sampling_download_url", &f);
		}
	}
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else
		open_session(s, r, open);
	faults_fini(&f);
	json_free(doc);
	free(open);
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
	struct session *session = sessions_find(s, http_param(r));
	struct json_writer w;

	if (session == NULL) {
		http_reply_detail(r, 404, not_found);
		return;
	}
	json_writer_init(&w);
	session_status_write(session, &w);
	reply(r, &w);
}

void
api_session_close(struct stepd *s, struct http_request *r)
{
	struct session *session = sessions_find(s, http_param(r));
	const char *force = http_query(r, "force");
	struct session_request *request;

	if (session == NULL) {
		http_reply_detail(r, 404, not_found);
		return;
	}
	if (force != NULL && strcmp(force, "true") != 0 && strcmp(force, "false") != 0) {
		http_reply_detail(r, 422, "force must be true or false");
		return;
	}
	request = session_request_new(REQUEST_CLOSE, r, -1);
	if (request == NULL) {
		http_reply_detail(r, 503, "stepd has no memory left for the request");
		return;
	}
	if (api_key_take(r, request) != 0) {
		session_request_free(request);
		return;
	}
	request->force = force != NULL && strcmp(force, "true") == 0;
	operation_describe(request);
	session_post(session, request);
}
