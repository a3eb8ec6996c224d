/* What goes to the store around a request: the intent before the worker is asked, the outcome
   before the client is answered, each as one change. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/log.h"
#include "supervisor/http/http.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/kept_find.h"
#include "supervisor/session/session_action.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/events.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum { WRITES_MAX = 4 };

/* One change, while it is put together. */
struct change {
	struct store_write writes[WRITES_MAX];
	size_t count;
	bool failed;
	uint8_t record[SESSION_RECORD_MAX];
	uint8_t step_key[JOURNAL_KEY_SIZE], *step;
	uint8_t answer_key[KEPT_KEY_MAX], answer[KEPT_ANSWER_MAX];
	uint8_t upload[UPLOAD_MAX];
};

static void
add(struct change *c, enum store_table table, const void *key, size_t key_len, const void *data,
    long len)
{
	if (len < 0) {
		c->failed = true;
		return;
	}
	c->writes[c->count++] = (struct store_write){table, key, key_len, data, (size_t)len};
}

/* The step under way, with the ids of its request. */
static void
add_step(struct change *c, struct session *s, struct journal_step *step, uint64_t number)
{
	struct blob_view ids;
	size_t size;

	if (blob_map(&ids, s->current->fd) != 0) {
		c->failed = true;
		return;
	}
	step->ids = ids.data;
	step->ids_len = ids.len;
	step->at = (int64_t)time(NULL);
	step->learning_rate = s->current->learning_rate;
	size = ids.len + JOURNAL_STEP_MAX;
	c->step = malloc(size);
	journal_key(c->step_key, s->record.id, number);
	add(c, STORE_JOURNAL, c->step_key, sizeof(c->step_key), c->step,
	    c->step == NULL ? -1 : journal_step_put(step, c->step, size));
	blob_unmap(&ids);
}

/* Frees c. */
static void
commit(struct session *s, struct change *c,
    int (*how)(struct store *, const struct store_write *, size_t, void (*)(void *, int), void *))
{
	struct session_input none = {0};
	bool failed = c == NULL || c->failed ||
		      how(s->stepd->store, c->writes, c->count, session_kept, s) != 0;

	if (c != NULL)
		free(c->step);
	free(c);
	if (failed)
		session_event(s, EV_NOT_KEPT, &none);
}

void
session_intend(struct session *s)
{
	struct journal_step step = {.stage = JOURNAL_INTENDED};
	struct change *c = calloc(1, sizeof(*c));

	s->state = SESSION_INTENDING;
	if (c != NULL)
		add_step(c, s, &step, s->record.step + 1);
	/* With room for the outcome: a step that is done has to be kept. */
	commit(s, c, store_commit_begun);
}

void
session_keep_outcome(struct session *s, const struct message_trained *t)
{
	struct session_outcome *o = &s->outcome;
	struct change *c = calloc(1, sizeof(*c));

	s->state = SESSION_KEEPING;
	o->stepped = t != NULL;
	if (t != NULL)
		o->trained = *t;
	o->record.changed_at = (int64_t)time(NULL);
	if (c != NULL) {
		add(c, STORE_SESSIONS, o->record.id, strlen(o->record.id), c->record,
		    session_record_put(&o->record, c->record));
	}
	if (c != NULL && o->upload.sha256[0] != '\0') {
		add(c, STORE_UPLOADS, o->record.id, strlen(o->record.id), c->upload,
		    upload_put(&o->upload, c->upload));
	}
	if (c != NULL && t != NULL) {
		struct journal_step step = {.stage = JOURNAL_DONE,
		    .loss = t->loss,
		    .gradient_norm = t->gradient_norm,
		    .input_tokens = t->input_tokens,
		    .supervised_tokens = t->supervised_tokens};

		crypto_generichash(step.response, sizeof(step.response), (const uint8_t *)o->json,
		    strlen(o->json), NULL, 0);
		add_step(c, s, &step, t->step);
	}
	if (c != NULL && s->current->key != NULL) {
		struct kept_answer answer = {.kind = (uint8_t)s->current->kind,
		    .step = o->record.step,
		    .at = kept_clock_seconds(),
		    .json = o->json,
		    .json_len = strlen(o->json)};
		bool opening = s->current->kind == REQUEST_OPEN;
		size_t len = kept_answer_key(
		    c->answer_key, opening ? KEPT_OPENING : s->record.id, s->current->key);

		memcpy(answer.digest, s->current->digest, sizeof(answer.digest));
		add(c, STORE_ANSWERS, c->answer_key, len, c->answer,
		    kept_answer_put(&answer, c->answer));
	}
	commit(s, c, store_commit);
}

void
intending_kept(struct session *s, struct session_input *in)
{
	(void)in;
	if (s->child == NULL)
		session_worker_gone(s);
	else
		train_ask(s);
}

void
intending_not_kept(struct session *s, struct session_input *in)
{
	(void)in;
	session_reply_detail(
	    s, 507, "the trainer has no disk space for its journal; the step was not begun");
	session_settle(s);
}

void
keeping_kept(struct session *s, struct session_input *in)
{
	struct session_outcome *o = &s->outcome;
	int fd = o->fd;

	(void)in;
	/* Why its worker has gone, if it has meanwhile. */
	memcpy(o->record.reason, s->record.reason, sizeof(o->record.reason));
	s->record = o->record;
	if (o->stepped) {
		s->stepped = true;
		s->last_step = o->trained;
		events_step(s, &o->trained);
	}
	if (s->current->kind == REQUEST_SAVE)
		events_saved(s, o->saved_bytes);
	o->fd = -1;
	if (o->upload.sha256[0] != '\0') {
		upload_fini(&s->upload);
		s->upload = o->upload;
		o->upload = (struct upload){0};
	}
	if (!s->opened) {
		s->opened = true;
		log_info("session %s: open at step %llu, %s on %s", s->record.id,
		    (unsigned long long)s->record.step, s->record.compute, s->record.device);
	}
	http_add_header(s->current->http, "Stepd-Durable", s->stepd->config->durability);
	if (fd >= 0)
		session_reply_blob(s, fd, o->offset, o->len);
	else
		session_reply_json(s, 200, o->json, strlen(o->json));
	session_settle(s);
}

/* Nobody learns of a session that the store does not hold. */
static void
not_opened(struct session *s)
{
	static const char sentence[] = "the trainer has no disk space to keep the session";

	if (s->child != NULL) {
		session_give_up(s, 507, sentence, -1);
		return;
	}
	session_reply_detail(s, 507, sentence);
	session_discard(s);
}

/* A step that is not kept must not be in the adapter either: the worker, which has done it, goes.
 */
void
keeping_not_kept(struct session *s, struct session_input *in)
{
	struct session_outcome *o = &s->outcome;
	bool ahead = s->current->kind == REQUEST_TRAIN;
	char sentence[160];

	(void)in;
	if (!s->opened) {
		not_opened(s);
		return;
	}
	upload_fini(&o->upload);
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	snprintf(sentence, sizeof(sentence),
	    "the trainer has no disk space to keep what was done; the session is at step %llu",
	    (unsigned long long)s->record.step);
	session_reply_detail(s, 507, sentence);
	if (ahead && s->child != NULL)
		session_undo(s);
	else
		session_settle(s);
}

/* What it did is known: the store decides. */
void
keeping_died(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}
