/* Bringing a session back from what it uploaded, where the spool does not hold its snapshot any
   more: by itself where a sealed restore_url tells from where and the journal holds every step
   since then, else by POST /v1/sessions/{id}:restore, after which the steps since then have to be
   sent again. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

/* 0 where the journal holds that step, or why not. */
static int
look(const struct session *s, uint64_t step)
{
	struct journal_step record;
	void *data;
	int error = journal_read(s->stepd->store, s->record.id, step, &record, &data);

	free(data);
	return error;
}

/* Does the journal hold every step behind `step`? */
static bool
journal_is_whole(const struct session *s, uint64_t step)
{
	bool whole = step <= s->record.step;

	for (; whole && step < s->record.step; step++)
		whole = look(s, step + 1) == 0;
	return whole;
}

/* Going back would take from a newer stepd what only that one can read: its steps are not lost. */
static bool
is_of_a_newer_stepd(const struct session *s)
{
	const struct upload *u = &s->upload;
	uint64_t step = u->url != NULL && u->url_step < u->step ? u->url_step : u->step;
	bool newer = s->anchor.newer;

	for (; !newer && step < s->record.step; step++)
		newer = look(s, step + 1) == -EPROTO;
	return newer;
}

/* It stays without a worker; who asked is told. `why` follows "the worker". */
static void
fail(struct session *s, unsigned status, const char *sentence, const char *why)
{
	log_error("session %s: not brought back: %s", s->record.id, sentence);
	if (s->current != NULL)
		session_reply_detail(s, status, sentence);
	snprintf(s->record.reason, sizeof(s->record.reason), "%s", why);
	session_lose_worker(s);
}

static void
recall(struct session *s, const char *url)
{
	s->state = SESSION_RECALLING;
	s->transfer = transfer_begin(s->stepd->transfer, TRANSFER_GET, url, -1,
	    s->stepd->config->artifact_limit, session_moved, s);
	if (s->transfer == NULL)
		fail(s, 503, "stepd has no memory left for a download", "has no state: no memory");
}

bool
session_recall(struct session *s)
{
	char *url;

	if (!journal_is_whole(s, s->upload.url_step))
		return false;
	url = upload_url(&s->upload, &s->stepd->sessions->seal_key, s->record.id);
	if (url == NULL)
		return false;
	log_warning("session %s: its snapshot is gone; its upload of step %llu is fetched",
	    s->record.id, (unsigned long long)s->upload.url_step);
	recall(s, url);
	sodium_memzero(url, strlen(url));
	free(url);
	return true;
}

/* The request is `current`. */
void
session_recall_asked(struct session *s)
{
	char *sealed = NULL;
	const char *why = NULL;
	const char *url = s->current->url;

	if (url == NULL) {
		sealed = upload_url(&s->upload, &s->stepd->sessions->seal_key, s->record.id);
		url = sealed;
	}
	if (is_of_a_newer_stepd(s))
		session_reply_detail(s, 409,
		    "the session has records of a newer stepd, which are left as they are: start "
		    "that one again");
	else if (s->upload.sha256[0] == '\0')
		session_reply_detail(s, 422, "the session has uploaded no state to come back to");
	else if (url == NULL)
		session_reply_detail(
		    s, 422, "restore_url is needed: no save of the session told one");
	else if (!session_take_place(s, &why))
		session_reply_detail(s, s->slot == NULL ? 409 : 422, why);
	else
		recall(s, url);
	if (sealed != NULL)
		sodium_memzero(sealed, strlen(sealed));
	free(sealed);
	if (s->state != SESSION_RECALLING)
		sessions_release(s);
}

/* Forgotten: what was answered for steps that are not there any more. */
struct forget {
	struct session *s;
	uint64_t step;
};

static int
forget_answer(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	const struct forget *forget = ctx;
	struct session *s = forget->s;
	struct store_write gone = {STORE_ANSWERS, key, key_len, NULL, 0};
	struct kept_answer answer;
	size_t id_len = strlen(s->record.id);

	if (key_len < id_len || memcmp(key, s->record.id, id_len) != 0 ||
	    kept_answer_get(&answer, data, len) != 0 || answer.step <= forget->step ||
	    answer.kind == REQUEST_OPEN)
		return 0;
	return store_commit(s->stepd->store, &gone, 1, NULL, NULL);
}

/* An upload of a step that is lost is no state of the session any more: other steps may follow. */
static long
keep_upload(struct upload *u, uint64_t step, uint8_t packed[UPLOAD_MAX])
{
	if (u->step > step) {
		u->step = u->url_step;
		memcpy(u->sha256, u->url_sha256, sizeof(u->sha256));
	}
	return upload_put(u, packed);
}

static void
note_before(struct session *s)
{
	struct session_before *b = &s->before;

	b->back = true;
	b->record = s->record;
	b->resend_to = s->restore.resend_to;
	b->upload_step = s->upload.step;
	memcpy(b->upload_sha256, s->upload.sha256, sizeof(b->upload_sha256));
}

void
session_went_back(struct session *s, bool kept)
{
	const struct session_before *b = &s->before;

	if (b->back && !kept) {
		s->record = b->record;
		s->restore.resend_to = b->resend_to;
		s->upload.step = b->upload_step;
		memcpy(s->upload.sha256, b->upload_sha256, sizeof(s->upload.sha256));
	}
	s->before.back = false;
}

/* The steps behind `step` are lost with the spool, and the journal of them is not whole: the
   session is at `step` again. They have to be sent again, so answers that were kept for them are
   forgotten and their keys are good again. */
static int
go_back(struct session *s, uint64_t step, const struct transfer_result *moved)
{
	struct forget forget = {s, step};
	struct session_record *r = &s->record;
	uint8_t packed[SESSION_RECORD_MAX], upload[UPLOAD_MAX], key[JOURNAL_KEY_SIZE];
	struct store_write writes[] = {{STORE_SESSIONS, r->id, strlen(r->id), packed, 0},
	    {STORE_UPLOADS, r->id, strlen(r->id), upload, 0}};
	struct store_write gone = {STORE_JOURNAL, key, sizeof(key), NULL, 0};
	uint64_t lost = r->step - step;
	int error = store_each(s->stepd->store, STORE_ANSWERS, forget_answer, &forget);
	long len, upload_len;

	note_before(s);
	upload_len = keep_upload(&s->upload, step, upload);
	if (s->stepd->sessions->went_back != NULL)
		s->stepd->sessions->went_back(s->stepd, r->id, step);
	for (uint64_t at = step + 1; error == 0 && at <= r->step; at++) {
		journal_key(key, r->id, at);
		error = store_commit(s->stepd->store, &gone, 1, NULL, NULL);
	}
	log_warning(
	    "session %s: back from step %llu to %llu: the steps between are to be sent again",
	    r->id, (unsigned long long)r->step, (unsigned long long)step);
	s->restore.resend_to = r->step;
	r->step = step;
	r->loss_count = lost < r->loss_count ? r->loss_count - (uint32_t)lost : 0;
	if (r->saved_step > step)
		session_record_set_saved(r, ARTIFACT_STATE, step, moved->size, moved->sha256);
	if (r->verified_step > step)
		r->verified_step = r->verified_kind = 0;
	len = session_record_put(r, packed);
	writes[0].len = len < 0 ? 0 : (size_t)len;
	writes[1].len = upload_len < 0 ? 0 : (size_t)upload_len;
	if (error == 0 && (len < 0 || upload_len < 0))
		error = -EMSGSIZE;
	return error != 0 ? error : store_commit(s->stepd->store, writes, 2, session_kept, s);
}

/* Which of its uploads is it? */
static bool
is_ours(const struct session *s, const char *sha256, uint64_t *step)
{
	const struct upload *u = &s->upload;

	if (strcmp(sha256, u->sha256) == 0)
		*step = u->step;
	else if (strcmp(sha256, u->url_sha256) == 0)
		*step = u->url_step;
	else
		return false;
	return true;
}

/* It is the anchor at once, for the workers to come, and in the spool soon. */
static void
take_anchor(struct session *s, struct transfer_result *moved, uint64_t step)
{
	struct anchor *a = &s->anchor;

	anchor_drop(s);
	a->fd = moved->fd;
	moved->fd = -1;
	a->step = a->pruned = step;
	a->kind = ARTIFACT_STATE;
	memcpy(a->sha256, moved->sha256, sizeof(a->sha256));
	anchor_renew(s);
}

void
recalling_moved(struct session *s, struct session_input *in)
{
	char sentence[320];
	uint64_t step;

	if (!is_ours(s, in->moved->sha256, &step)) {
		snprintf(sentence, sizeof(sentence),
		    "restore_url does not hold a state that this session uploaded: its sha256 is "
		    "%s, "
		    "not %s",
		    in->moved->sha256, s->upload.sha256);
		fail(s, 422, sentence, "has no state: the upload is another one");
		return;
	}
	take_anchor(s, in->moved, step);
	s->restore.fetched = true;
	s->state = SESSION_CHECKING;
	if (journal_is_whole(s, step))
		checking_kept(s, in);
	else if (go_back(s, step, in->moved) != 0)
		checking_not_kept(s, in);
}

void
recalling_not_moved(struct session *s, struct session_input *in)
{
	bool large = in->moved->error == -EFBIG;
	bool full = in->moved->error == -ENOSPC || in->moved->error == -EDQUOT;

	fail(s,
	    large  ? 422
	    : full ? 507
		   : 502,
	    large  ? "the trainer state is too large"
	    : full ? "the trainer has no disk space for the download"
		   : "the trainer state download failed",
	    "has no state: its upload could not be fetched");
}

void
recalling_stop(struct session *s, struct session_input *in)
{
	(void)in;
	transfer_cancel(s->transfer);
	s->transfer = NULL;
	s->stopping = true;
	fail(s, 503, "the trainer is stopping", "has no state: stepd stopped");
}

/* It is back; POST :restore of a session that was never away is an error. */
void
restore_begin(struct session *s)
{
	if (!s->restore.fetched) {
		session_reply_detail(
		    s, 409, "the session has its worker: there is nothing to restore");
	} else {
		s->restore.fetched = false;
		s->state = s->restore.behind ? SESSION_AWAITING : SESSION_READY;
		s->record.fate = FATE_OPEN;
		sessions_keep(s);
		session_reply_status(s);
	}
	session_settle(s);
}
