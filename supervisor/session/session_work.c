/* A session that is ready takes the next request; rendering, training, generating and
   evaluating. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/json_write.h"
#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/session_status.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"

static void
render_begin(struct session *s)
{
	s->state = SESSION_RENDERING;
	session_ask(s, MSG_RENDER, NULL, 0, s->current->fd, s->stepd->config->render_timeout);
}

void
train_ask(struct session *s)
{
	s->state = SESSION_TRAINING;
	session_ask_step(s, s->current->learning_rate, s->record.step, s->current->fd);
}

static void
generate_begin(struct session *s)
{
	s->state = SESSION_GENERATING;
	session_ask(s, MSG_GENERATE, NULL, 0, s->current->fd, s->stepd->config->generate_timeout);
}

static void
evaluate_begin(struct session *s)
{
	s->state = SESSION_EVALUATING;
	session_ask(s, MSG_EVALUATE, NULL, 0, s->current->fd, s->stepd->config->evaluate_timeout);
}

static void
close_begin(struct session *s)
{
	uint64_t unsaved = session_unsaved_steps(s);
	char sentence[160];

	if (unsaved > 0 && !s->current->force) {
		snprintf(sentence, sizeof(sentence),
		    "the session has %llu steps that no upload holds: save it, or close it with "
		    "?force=true",
		    (unsigned long long)unsaved);
		session_reply_detail(s, 409, sentence);
		session_settle(s);
		return;
	}
	s->state = SESSION_CLOSING;
	child_end(s->child);
}

/* Sent again while the session was loading. */
static void
open_again(struct session *s)
{
	char json[64];
	int len = snprintf(json, sizeof(json), "{\"session_id\":\"%s\"}", s->record.id);

	session_reply_json(s, 200, json, (size_t)len);
	session_settle(s);
}

void
session_begin(struct session *s)
{
	static void (*const begin[])(struct session *) = {
	    [REQUEST_OPEN] = open_again,
	    [REQUEST_RENDER] = render_begin,
	    [REQUEST_TRAIN] = session_intend,
	    [REQUEST_SAVE] = save_begin,
	    [REQUEST_GENERATE] = generate_begin,
	    [REQUEST_CLOSE] = close_begin,
	    [REQUEST_RESTORE] = restore_begin,
	    [REQUEST_EVALUATE] = evaluate_begin,
	    [REQUEST_VERIFY] = verify_begin,
	};

	begin[s->current->kind](s);
}

struct session_request *
session_take_new(struct session *s)
{
	struct session_request *request;

	while ((request = session_take(s)) != NULL) {
		if (request->kind == REQUEST_VERIFY)
			verify_resolve(s, request);
		if (!session_answer_again(s, request) && !session_refuse_quarantined(s, request))
			break;
	}
	return request;
}

void
ready_request(struct session *s, struct session_input *in)
{
	struct session_request *request = session_take_new(s);

	(void)in;
	if (request == NULL) {
		session_settle(s);
		return;
	}
	s->current = request;
	session_begin(s);
}

/* What follows a render: its answer is in the outcome. */
static void
rendered(struct session *s)
{
	struct session_outcome *o = &s->outcome;
	int fd = o->fd;

	if (s->current->key != NULL) {
		session_keep_outcome(s, NULL);
		return;
	}
	o->fd = -1;
	session_reply_blob(s, fd, o->offset, o->len);
	session_settle(s);
}

/* Keeps the datums for a worker that comes after this one: in memory, and where that is asked for
   on the disk, which takes a while. */
static void
keep_datums(struct session *s, const struct blob_view *view)
{
	int added = datum_log_add(&s->datums, view->data, view->len);

	if (added < 0)
		log_warning("session %s: its datums are not kept for another worker: %s",
		    s->record.id, strerror(-added));
	if (added <= 0 || !s->stepd->config->persist_data) {
		rendered(s);
		return;
	}
	s->state = SESSION_SEALING;
	datum_file_append(s, view->data, view->len);
}

/* 0; -ENOMEM; or -EBADMSG where the worker sent what cannot be mapped. */
static int
map_answer(struct blob_view *view, int fd, size_t most)
{
	int error = blob_map_most(view, fd, most);

	return error == 0 || error == -ENOMEM ? error : -EBADMSG;
}

/* The blob of an answer: u64 length, JSON, and the rest. 0 with the view and the length, -ENOMEM,
   or -EBADMSG. */
static int
view_rendered(struct message *m, struct blob_view *view, uint64_t *json_len)
{
	struct wire_get r;
	int error;

	if (m->type != MSG_RENDERED || wire_get_end(&m->body) != 0 || m->fd < 0)
		return -EBADMSG;
	error = map_answer(view, m->fd, RENDERED_MAX);
	if (error != 0)
		return error;
	wire_get_init(&r, view->data, view->len);
	*json_len = wire_get_u64(&r);
	if (!r.failed && *json_len > 0 && *json_len <= view->len - r.at)
		return 0;
	blob_unmap(view);
	return -EBADMSG;
}

void
rendering_answer(struct session *s, struct session_input *in)
{
	struct blob_view view;
	uint64_t len = 0;

	in->error = view_rendered(in->answer, &view, &len);
	if (in->error != 0)
		return;
	s->outcome = (struct session_outcome){
	    .record = s->record, .fd = in->answer->fd, .offset = 8, .len = len};
	in->answer->fd = -1;
	keep_datums(s, &view);
	blob_unmap(&view);
}

void
sealing_kept(struct session *s, struct session_input *in)
{
	(void)in;
	rendered(s);
}

/* The worker has them, and may keep them: the same render gives the same. */
void
sealing_not_kept(struct session *s, struct session_input *in)
{
	(void)in;
	datum_log_drop_last(&s->datums);
	close(s->outcome.fd);
	s->outcome.fd = -1;
	session_reply_detail(s, 507, "the trainer has no disk space to keep the datums");
	session_settle(s);
}

static int
write_trained(char json[KEPT_JSON_MAX], const struct message_trained *t)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_double(&w, "loss", t->loss);
	json_put_double(&w, "gradient_norm", t->gradient_norm);
	json_put_uint(&w, "input_token_count", t->input_tokens);
	json_put_uint(&w, "supervised_token_count", t->supervised_tokens);
	json_write_object_end(&w);
	return session_take_json(json, &w);
}

void
training_answer(struct session *s, struct session_input *in)
{
	struct session_record *r = &s->outcome.record;
	struct message_trained t;

	if (in->answer->type != MSG_TRAINED || message_get_trained(&in->answer->body, &t) != 0 ||
	    t.step != s->record.step + 1 || !isfinite(t.loss) || !isfinite(t.gradient_norm)) {
		in->error = -EBADMSG;
		return;
	}
	s->outcome.fd = -1;
	in->error = write_trained(s->outcome.json, &t);
	if (in->error != 0)
		return;
	*r = s->record;
	r->step = t.step;
	r->tokens_seen += t.input_tokens;
	session_record_add_loss(r, t.loss);
	session_keep_outcome(s, &t);
}

/* The answer of a request that changed nothing: JSON in a blob. */
static void
pass_on(struct session *s, struct session_input *in, enum message_type type, size_t most)
{
	struct blob_view view;
	size_t len;
	int fd = in->answer->fd;

	if (in->answer->type != type || wire_get_end(&in->answer->body) != 0 || fd < 0)
		in->error = -EBADMSG;
	else
		in->error = map_answer(&view, fd, most);
	if (in->error != 0)
		return;
	len = view.len;
	blob_unmap(&view);
	if (len == 0) {
		in->error = -EBADMSG;
		return;
	}
	in->answer->fd = -1;
	session_reply_blob(s, fd, 0, len);
	session_settle(s);
}

void
generating_answer(struct session *s, struct session_input *in)
{
	pass_on(s, in, MSG_GENERATED, GENERATED_MAX);
}

void
evaluating_answer(struct session *s, struct session_input *in)
{
	pass_on(s, in, MSG_EVALUATED, EVALUATED_MAX);
}

/* Nothing changed: the session goes on. */
void
busy_refused(struct session *s, struct session_input *in)
{
	session_reply_failed(s, in->failed, in->answer->fd);
	session_settle(s);
}
