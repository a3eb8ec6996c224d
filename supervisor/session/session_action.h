/*
 * The actions of the session table, <state>_<event>, and what they are made of. Private to the
 * session_*.c files.
 */
#ifndef SUPERVISOR_SESSION_SESSION_ACTION_H
#define SUPERVISOR_SESSION_SESSION_ACTION_H

#include "supervisor/session/session.h"

struct json_writer;

typedef void session_action(struct session *s, struct session_input *in);

/* A cell of the table: never NULL. */
session_action *session_table_cell(enum session_state state, enum session_event event);

/* session.c: the request that waits longest, out of the line; or NULL. */
struct session_request *session_take(struct session *s);

/* session_work.c: the same, but those that were answered before or ended two workers, which get
   their answer. */
struct session_request *session_take_new(struct session *s);

/* session_reply.c: answers to the request under way, which they end. The session may be gone after
   session_settle, and after everything that calls it. */
void session_reply_json(struct session *s, unsigned status, const char *json, size_t len);
void session_reply_detail(struct session *s, unsigned status, const char *sentence);
void session_reply_failed(struct session *s, const struct message_failed *failed, int fd);
/* JSON in a sealed blob from an offset on; consumes fd. */
void session_reply_blob(struct session *s, int fd, uint64_t offset, uint64_t len);
/* Its state, as GET answers it. */
void session_reply_status(struct session *s);
/* Answers a request that is not under way, and frees it. */
void session_refuse(
    struct session *s, struct session_request *request, unsigned status, const char *sentence);
/* The sentence for a session without a worker. */
const char *session_lost_sentence(const struct session *s);

/* session_told.c: callbacks of the store and of a transfer, whose ctx is the session: EV_KEPT or
   EV_NOT_KEPT; EV_MOVED or EV_NOT_MOVED, with a line in the log. */
void session_kept(void *ctx, int error);
void session_moved(void *ctx, struct transfer_result *result);
/* Takes an answer out of its writer, which ends. 0, -ENOMEM, or -EMSGSIZE; then it is "". */
int session_take_json(char json[KEPT_JSON_MAX], struct json_writer *w);
/* Closes the artifact under way, if there is one. */
void session_drop_spool(struct session *s);

/* session_worker.c: the worker of a session, and asking it. */
int session_start_worker(struct session *s);
void session_ask(struct session *s, enum message_type type, const void *body, size_t len, int fd,
    uint64_t seconds);
/* SAVE, LOAD or VERIFY: an artifact of that kind, in fd. */
void session_ask_artifact(
    struct session *s, enum message_type type, uint8_t kind, int fd, uint64_t seconds);
/* TRAIN: the step after `step`, of the datums whose ids are in fd. */
void session_ask_step(struct session *s, double learning_rate, uint64_t step, int fd);

/* session_quarantine.c: refuses, and frees, a request that ended two workers; false: it did not. */
bool session_refuse_quarantined(struct session *s, struct session_request *request);
/* A worker died at the request under way, which is answered if it is not to be tried again. */
void session_blame(struct session *s, enum child_class class);

/* session_keep.c: before and after the worker is asked, the store. What is to be true is in
   s->outcome; `trained` is the step that was done, NULL for other requests. */
void session_intend(struct session *s);
void session_keep_outcome(struct session *s, const struct message_trained *trained);

/* session_end.c: nothing is under way any more: ready for the next request, or without a worker. */
void session_settle(struct session *s);
/* The same after a worker was brought back: on with what is under way, else as session_settle. */
void session_go_on(struct session *s);
/* Its worker has gone: what is under way waits for another one, unless stepd stops. */
void session_worker_gone(struct session *s);
/* Without a worker: what waits is answered, the slot is free. */
void session_lose_worker(struct session *s);
/* session_close.c: it has no worker any more, and its request to be closed is under way. */
void session_close_for_good(struct session *s);
/* There is no worker to serve what is under way and what waits: 503, or closed where that is asked.
   Whether it is closed now. */
bool session_answer_without_worker(struct session *s);
/* Ends a worker that is ahead of what the store holds; nothing is under way. */
void session_undo(struct session *s);
/* Ends the worker of a session whose opening failed; `refusal` is the answer once it is gone. */
void session_give_up(struct session *s, unsigned status, const char *sentence, int fd);
/* Answers the opening and removes a session that nobody knows. */
void session_discard(struct session *s);

/* session_restore.c: the timer by which it waits for workers. 0 or -ENOMEM. */
int session_restore_init(struct session *s);
/* It has no worker; what is under way waits until there is another. */
void session_recover(struct session *s);
/* Its worker is at s->restore.step: on with the journal, until it is where the session is. */
void session_replay(struct session *s);
/* session_await.c: the next step of the journal has datums that are not there: it waits for them.
 */
void session_await(struct session *s);
/* session_recall.c: without a snapshot: fetches what the session uploaded, where that needs nobody
   and loses nothing (false: it does not); and as the RESTORE under way asks for it. */
bool session_recall(struct session *s);
void session_recall_asked(struct session *s);
/* session_recall.c: the store holds that it went back, or does not: then it is where it was. */
void session_went_back(struct session *s, bool kept);
/* session_revive.c: the slot and the model that a worker needs; or false with a sentence, without a
   slot where there is none. A model that cannot be looked for now is looked for by each try. */
bool session_take_place(struct session *s, const char **why);
/* session_revive.c: model_path; or "" and the error of models_find(). */
int session_find_model(struct session *s, const char **why);
/* session_revive.c: it has no place; where one may come while stepd runs, it is waited for. */
void session_wait_for_device(struct session *s);
/* session_revive.c: there is a device again for one that waits for it. */
void session_come_back(struct session *s);
/* session_revive.c: stepd was started again; a session that had a worker gets one. 0 or -ENOMEM. */
int session_revive(struct session *s);

/* session_snapshot.c: is there something new to be written; is it time to; and doing so, after
   which the session goes on as by session_go_on. */
bool snapshot_is_possible(const struct session *s);
bool snapshot_is_due(const struct session *s);
void snapshot_begin(struct session *s);

session_action any_ignore, any_unexpected, any_wait;
/* session_open.c */
session_action downloading_moved, downloading_not_moved, downloading_stop;
session_action starting_started, opening_answer, loading_answer, loading_refused, loading_died,
    loading_stop, anchoring_anchored;
/* session_work.c */
session_action ready_request, rendering_answer, sealing_kept, sealing_not_kept, training_answer,
    generating_answer, evaluating_answer, busy_refused;
/* session_keep.c */
session_action intending_kept, intending_not_kept, keeping_kept, keeping_not_kept, keeping_died;
/* session_restore.c */
session_action restoring_timer, restoring_anchored, restarting_started, reopening_answer,
    reloading_answer, resending_answer, replaying_answer, restoring_refused, restoring_died,
    restoring_stop;
/* session_await.c */
session_action awaiting_request;
/* session_revive.c */
session_action checking_kept, checking_not_kept;
/* session_recall.c */
session_action recalling_moved, recalling_not_moved, recalling_stop;
/* session_snapshot.c */
session_action snapshotting_answer, snapshotting_refused, snapshotting_died;
/* session_save.c */
session_action saving_answer, securing_anchored, saving_refused, saving_died, uploading_moved,
    uploading_not_moved, uploading_died;
/* session_verify.c */
session_action fetching_moved, fetching_not_moved, fetching_died, fetching_stop, verifying_answer;
/* session_end.c */
session_action ready_died, ready_stop, ready_anchored, draining_anchored, busy_died, busy_stop;
session_action closing_request, closing_died;
/* session_close.c */
session_action ending_kept, ending_not_kept, needs_restore_request, closed_request;

/* session_verify.c: what a request to verify leaves open is what the session saved last. */
void verify_resolve(const struct session *s, struct session_request *request);

/* session_work.c, session_save.c, session_verify.c, session_recall.c: begin a request of their
   kind, now under way. */
void save_begin(struct session *s);
void verify_begin(struct session *s);
void restore_begin(struct session *s);
void train_ask(struct session *s);
void session_begin(struct session *s);
/* session_open.c: asks the worker to open what the record says. */
void session_send_open(struct session *s, const char *compute);

#endif
