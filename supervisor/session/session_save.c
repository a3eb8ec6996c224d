/* Saving: the worker writes a spool file, stepd uploads it. The training state is never touched, so
   every failure only ends the request. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/store/spool.h"
#include "supervisor/stepd.h"

static const char upload_failed[] = "the trainer artifact upload failed";

static void
end_save(struct session *s, unsigned status, const char *sentence)
{
	session_drop_spool(s);
	session_reply_detail(s, status, sentence);
	session_settle(s);
}

void
save_begin(struct session *s)
{
	/* Before an upload there is always a snapshot. A state that is saved is one itself. */
	if (s->current->artifact != ARTIFACT_STATE && s->anchor.coming != NULL) {
		s->state = SESSION_SECURING; /* it may be of an older step: another one follows */
		return;
	}
	if (s->current->artifact != ARTIFACT_STATE && snapshot_is_possible(s)) {
		snapshot_begin(s);
		return;
	}
	s->spool = spool_new(s->stepd->sessions->spool);
	if (s->spool < 0) {
		log_error("session %s: no spool file: %s", s->record.id, strerror(-s->spool));
		end_save(s, 507, "the trainer has no place to write the artifact");
		return;
	}
	s->state = SESSION_SAVING;
	session_ask_artifact(
	    s, MSG_SAVE, s->current->artifact, s->spool, s->stepd->config->save_timeout);
}

/* The spool file goes on its way. */
static void
upload(struct session *s)
{
	int fd = s->spool;

	s->spool = -1;
	s->transfer = transfer_begin(
	    s->stepd->transfer, TRANSFER_PUT, s->current->url, fd, 0, session_moved, s);
	if (s->transfer == NULL)
		end_save(s, 502, upload_failed);
	else
		s->state = SESSION_UPLOADING;
}

/* Before an upload the newest state is safe in the spool: a state that is saved becomes the anchor
   itself, and what is on its way to be one is waited for. */
static void
upload_secured(struct session *s)
{
	if (s->current->artifact == ARTIFACT_STATE && s->spool_step > s->anchor.step &&
	    s->anchor.coming == NULL && !s->spool_secured) {
		int copy = fcntl(s->spool, F_DUPFD_CLOEXEC, 0);

		s->spool_secured = true;
		if (copy >= 0)
			anchor_begin(s, copy, s->spool_step, ARTIFACT_STATE, s->spool_sha256, 0);
	}
	if (s->anchor.coming != NULL)
		s->state = SESSION_SECURING;
	else
		upload(s);
}

void
saving_answer(struct session *s, struct session_input *in)
{
	struct message_saved saved;

	if (in->answer->type != MSG_SAVED || message_get_saved(&in->answer->body, &saved) != 0 ||
	    saved.step != s->record.step || strlen(saved.sha256) != 64 || saved.size_bytes == 0 ||
	    spool_size(s->spool) != (int64_t)saved.size_bytes) {
		in->error = -EBADMSG;
		return;
	}
	s->spool_step = saved.step;
	s->spool_secured = false;
	memcpy(s->spool_sha256, saved.sha256, sizeof(s->spool_sha256));
	upload_secured(s);
}

void
securing_anchored(struct session *s, struct session_input *in)
{
	(void)in;
	if (s->spool >= 0)
		upload_secured(s);
	else if (s->child == NULL)
		session_worker_gone(s);
	else
		save_begin(s);
}

void
saving_refused(struct session *s, struct session_input *in)
{
	session_drop_spool(s);
	busy_refused(s, in);
}

void
saving_died(struct session *s, struct session_input *in)
{
	session_drop_spool(s);
	busy_died(s, in);
}

static int
write_saved(char json[KEPT_JSON_MAX], const struct transfer_result *moved)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "sha256", moved->sha256);
	json_put_uint(&w, "size_bytes", moved->size);
	json_write_object_end(&w);
	return session_take_json(json, &w);
}

/* From where the session can be brought back, if the spool were gone. */
static int
note_upload(struct session *s, const char sha256[65])
{
	struct upload *u = &s->outcome.upload;
	int error = upload_copy(u, &s->upload);

	if (error == 0)
		error = upload_note(u, &s->stepd->sessions->seal_key, s->record.id, s->spool_step,
		    sha256, s->current->restore_url);
	if (error != 0)
		upload_fini(u);
	return error;
}

void
uploading_moved(struct session *s, struct session_input *in)
{
	struct session_record *r = &s->outcome.record;

	/* What was sent has to be what the worker wrote. */
	if (strcmp(in->moved->sha256, s->spool_sha256) != 0) {
		log_error("session %s: the artifact changed on the disk before it was sent",
		    s->record.id);
		end_save(s, 502, upload_failed);
		return;
	}
	s->outcome.fd = -1;
	if (write_saved(s->outcome.json, in->moved) != 0) {
		end_save(s, 503, "stepd has no memory left for the answer");
		return;
	}
	s->outcome.saved_bytes = in->moved->size;
	*r = s->record;
	session_record_set_saved(
	    r, s->current->artifact, s->spool_step, in->moved->size, in->moved->sha256);
	if (s->current->artifact == ARTIFACT_STATE && note_upload(s, in->moved->sha256) != 0) {
		end_save(s, 503, "stepd has no memory left for the upload's record");
		return;
	}
	session_keep_outcome(s, NULL);
}

void
uploading_not_moved(struct session *s, struct session_input *in)
{
	(void)in;
	end_save(s, 502, upload_failed);
}

/* The artifact is complete: its upload goes on without the worker. */
void
uploading_died(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}
