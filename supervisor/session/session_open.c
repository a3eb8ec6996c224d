/* From an opening request to a session that is ready: download, worker, model, artifact. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/cgroup.h"
#include "supervisor/settings/config.h"
#include "supervisor/http/http.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"

enum { OPEN_MESSAGE_MAX = 16 * 1024 };

static void
start_worker(struct session *s)
{
	if (session_start_worker(s) == 0) {
		s->state = SESSION_STARTING;
		return;
	}
	session_reply_detail(s, 503, "the worker of the session could not be started");
	session_discard(s);
}

/* Nobody will ever learn the id of a session whose opener has gone, without a key to ask by. */
static void
on_opener_gone(struct http_request *http, void *data)
{
	struct session_input none = {0};

	(void)http;
	/* Once the store is asked to hold it, it is there to stay. */
	if (((struct session *)data)->state != SESSION_KEEPING)
		session_event(data, EV_STOP, &none);
}

void
session_open(struct session *s, struct session_request *request)
{
	const struct config *c = s->stepd->config;

	s->current = request;
	s->anchor.at = monotonic_seconds();
	http_set_data(request->http, s);
	if (request->key == NULL)
		http_on_gone(request->http, on_opener_gone);
	if (request->url == NULL) {
		start_worker(s);
		return;
	}
	s->transfer = transfer_begin(s->stepd->transfer, TRANSFER_GET, request->url, -1,
	    c->artifact_limit, session_moved, s);
	if (s->transfer == NULL) {
		session_reply_detail(s, 503, "stepd has no memory left for a download");
		session_discard(s);
	}
}

void
downloading_moved(struct session *s, struct session_input *in)
{
	s->spool = in->moved->fd;
	in->moved->fd = -1;
	memcpy(s->spool_sha256, in->moved->sha256, sizeof(s->spool_sha256));
	s->spool_size = in->moved->size;
	start_worker(s);
}

void
downloading_not_moved(struct session *s, struct session_input *in)
{
	bool state = s->current->artifact == ARTIFACT_STATE;

	switch (in->moved->error) {
	case -EFBIG:
		session_reply_detail(s, 422,
		    state ? "the trainer state is too large"
			  : "the trainer sampling adapter is too large");
		break;
	case -ENOSPC:
	case -EDQUOT:
		session_reply_detail(s, 507, "the trainer has no disk space for the download");
		break;
	default:
		session_reply_detail(s, 502,
		    state ? "the trainer state download failed"
			  : "the trainer sampling adapter download failed");
	}
	session_discard(s);
}

void
downloading_stop(struct session *s, struct session_input *in)
{
	(void)in;
	session_reply_detail(s, 503, "the session was stopped while it was loading");
	session_discard(s);
}

/* As many as may run: a worker would count the processors, but of a quota it knows nothing, and
   more threads than that wait for each other. 0: let it count. */
static uint32_t
threads_of(const struct config *c)
{
	unsigned quota, count = 0;
	cpu_set_t may;

	if (c->threads != 0)
		return (uint32_t)c->threads;
	if (sched_getaffinity(0, sizeof(may), &may) == 0)
		count = (unsigned)CPU_COUNT(&may);
	quota = cgroup_processors("");
	return quota > 0 && (count == 0 || quota < count) ? quota : count;
}

void
session_send_open(struct session *s, const char *compute)
{
	const struct config *c = s->stepd->config;
	const struct session_record *r = &s->record;
	struct message_open open = {.session_id = r->id,
	    .base_model = r->base_model,
	    .model_revision = r->model_revision,
	    .model_path = s->model_path,
	    .lora_rank = r->lora_rank,
	    .lora_alpha = r->lora_alpha,
	    .lora_dropout = r->lora_dropout,
	    .target_modules = r->target_modules,
	    .seed = r->seed,
	    .maximum_datum_tokens = r->maximum_datum_tokens,
	    .weight_decay = r->weight_decay,
	    .beta1 = r->beta1,
	    .beta2 = r->beta2,
	    .epsilon = r->epsilon,
	    .max_grad_norm = r->max_grad_norm,
	    .compute = compute,
	    .micro_batch = r->micro_batch,
	    .memory_limit = c->worker_memory};
	uint8_t storage[OPEN_MESSAGE_MAX];
	struct wire_put w;

	/* Once for all of its workers; of a session of an older stepd it is not known. */
	if (s->record.threads == 0)
		s->record.threads = threads_of(c);
	open.threads = s->record.threads;
	wire_put_init(&w, storage, sizeof(storage));
	message_put_open(&w, &open);
	session_ask(s, MSG_OPEN, storage, w.len, -1, c->load_timeout);
}

void
starting_started(struct session *s, struct session_input *in)
{
	const struct config *c = s->stepd->config;

	(void)in;
	s->state = SESSION_OPENING;
	session_send_open(s, s->slot->kind == SLOT_GPU ? c->gpu_compute : c->cpu_compute);
}

/* What it was loaded from is where its worker can be brought back to, at once. */
static void
keep_anchor(struct session *s)
{
	struct anchor *a = &s->anchor;

	a->fd = s->spool;
	s->spool = -1;
	a->step = s->record.step;
	a->kind = s->current->artifact;
	memcpy(a->sha256, s->spool_sha256, sizeof(a->sha256));
	a->pruned = a->step;
	anchor_renew(s);
}

/* The client learns its id when the store has it: from here on the session survives. */
static void
opened(struct session *s)
{
	struct session_outcome *o = &s->outcome;
	struct json_writer w;

	o->record = s->record;
	o->fd = -1;
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "session_id", s->record.id);
	json_write_object_end(&w);
	if (session_take_json(o->json, &w) != 0)
		session_give_up(s, 503, "stepd has no memory left for the answer", -1);
	else
		session_keep_outcome(s, NULL);
}

void
anchoring_anchored(struct session *s, struct session_input *in)
{
	(void)in;
	if (s->anchor.named)
		opened(s);
	else
		session_give_up(
		    s, 507, "the trainer has no disk space to keep what it starts from", -1);
}

void
opening_answer(struct session *s, struct session_input *in)
{
	struct message_opened answer;

	if (in->answer->type != MSG_OPENED || message_get_opened(&in->answer->body, &answer) != 0) {
		in->error = -EBADMSG;
		return;
	}
	snprintf(s->record.compute, sizeof(s->record.compute), "%s", answer.compute);
	snprintf(s->record.device, sizeof(s->record.device), "%s",
	    s->slot->kind == SLOT_GPU ? s->slot->name : answer.device);
	log_info("session %s: sandbox of worker %d: %s", s->record.id, (int)child_pid(s->child),
	    answer.sandbox);
	snprintf(s->sandbox, sizeof(s->sandbox), "%s", answer.sandbox);
	s->record.micro_batch = answer.micro_batch;
	log_info("session %s: requests are split by %llu tokens", s->record.id,
	    (unsigned long long)answer.micro_batch);
	if (s->spool < 0) {
		opened(s);
		return;
	}
	s->state = SESSION_LOADING;
	session_ask_artifact(
	    s, MSG_LOAD, s->current->artifact, s->spool, s->stepd->config->load_timeout);
}

void
loading_answer(struct session *s, struct session_input *in)
{
	struct session_record *r = &s->record;
	struct message_loaded answer;

	if (in->answer->type != MSG_LOADED || message_get_loaded(&in->answer->body, &answer) != 0) {
		in->error = -EBADMSG;
		return;
	}
	snprintf(r->compute, sizeof(r->compute), "%s", answer.compute);
	r->micro_batch = answer.micro_batch;
	r->step = answer.step;
	r->tokens_seen = answer.tokens_seen;
	session_record_set_saved(
	    r, s->current->artifact, answer.step, s->spool_size, s->spool_sha256);
	keep_anchor(s);
	s->state = SESSION_ANCHORING;
	if (s->anchor.coming == NULL)
		anchoring_anchored(s, in);
}

void
loading_refused(struct session *s, struct session_input *in)
{
	session_give_up(s, in->failed->status, in->failed->detail, in->answer->fd);
	in->answer->fd = -1;
}

void
loading_died(struct session *s, struct session_input *in)
{
	char sentence[128];

	snprintf(sentence, sizeof(sentence), "the worker of the session %s while it was loading",
	    child_class_text(in->death->class));
	session_reply_detail(s, 503, sentence);
	session_discard(s);
}

void
loading_stop(struct session *s, struct session_input *in)
{
	(void)in;
	session_give_up(s, 503, "the session was stopped while it was loading", -1);
}
