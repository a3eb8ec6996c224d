/*
 * A session: one training run of one client, on one worker. Its life is the table in
 * session_table.c: what happens is an event, what a state does about it is one cell.
 *
 * Requests wait in line and are answered in their order; one is under way at a time. Opening is the
 * first request. A session owns its slot from its opening until its worker is gone.
 */
#ifndef SUPERVISOR_SESSION_SESSION_H
#define SUPERVISOR_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/session/anchor.h"
#include "supervisor/session/child.h"
#include "supervisor/session/datum_file.h"
#include "supervisor/session/datum_log.h"
#include "supervisor/session/kept_answer.h"
#include "supervisor/session/session_record.h"
#include "supervisor/session/upload.h"
#include "supervisor/session/slot.h"
#include "supervisor/status/event_ring.h"
#include "supervisor/transfer/transfer.h"

struct event;
struct http_request;
struct stepd;

/* X(NAME, "name in status answers", what it waits for) */
#define SESSION_STATE_LIST(X)                                                                      \
	X(DOWNLOADING, "loading", "the artifact to start from")                                    \
	X(STARTING, "loading", "the worker to be ready")                                           \
	X(OPENING, "loading", "the worker to load the model")                                      \
	X(LOADING, "loading", "the worker to load the artifact")                                   \
	X(ANCHORING, "loading", "the artifact to be on the disk")                                  \
	X(READY, "ready", "a request")                                                             \
	X(RENDERING, "ready", "datums")                                                            \
	X(SEALING, "ready", "its datums to be on the disk")                                        \
	X(INTENDING, "training", "the journal to hold what is going to be done")                   \
	X(TRAINING, "training", "a step")                                                          \
	X(GENERATING, "ready", "text")                                                             \
	X(EVALUATING, "ready", "losses")                                                           \
	X(FETCHING, "ready", "the artifact to be verified")                                        \
	X(VERIFYING, "ready", "the worker to judge an artifact")                                   \
	X(SAVING, "saving", "the worker to write an artifact")                                     \
	X(SECURING, "saving", "the newest state to be on the disk, before the upload")             \
	X(UPLOADING, "saving", "the artifact to be uploaded")                                      \
	X(KEEPING, "ready", "the journal to hold what was done")                                   \
	X(SNAPSHOTTING, "ready", "the worker to write a recovery snapshot")                        \
	X(RECALLING, "restoring", "an upload of its state to be downloaded")                       \
	X(CHECKING, "restoring", "its snapshot and datums to be read from the disk")               \
	X(RESTORING, "restoring", "a while, before the next worker")                               \
	X(RESTARTING, "restoring", "the worker to be ready")                                       \
	X(REOPENING, "restoring", "the worker to load the model")                                  \
	X(RELOADING, "restoring", "the worker to load the anchor")                                 \
	X(RESENDING, "restoring", "the worker to take the datums")                                 \
	X(REPLAYING, "restoring", "the worker to do a step of the journal again")                  \
	X(AWAITING, "needs_restore", "the client to render the datums of the journal again")       \
	X(NEEDS_RESTORE, "needs_restore", "somebody: it has no worker")                            \
	X(DRAINING, "saving", "its last snapshot to be on the disk")                               \
	X(CLOSING, "closed", "the worker to be gone")                                              \
	X(ENDING, "closed", "the store to hold that it is closed")                                 \
	X(CLOSED, "closed", "nothing")

/* X(NAME, what happened) */
#define SESSION_EVENT_LIST(X)                                                                      \
	X(REQUEST, "a request came, and is last in line")                                          \
	X(STARTED, "the worker is ready")                                                          \
	X(ANSWER, "the worker did what it was asked")                                              \
	X(REFUSED, "the worker refused; nothing changed")                                          \
	X(MOVED, "the transfer is complete")                                                       \
	X(NOT_MOVED, "the transfer failed")                                                        \
	X(DIED, "the worker is gone")                                                              \
	X(STOP, "nobody wants the session to run any longer")                                      \
	X(KEPT, "the store holds it")                                                              \
	X(NOT_KEPT, "the store could not hold it")                                                 \
	X(ANCHORED, "the snapshot on its way is on the disk, or cannot be")                        \
	X(TIMER, "the while is over")

#define SESSION_ENUM(name, ...) SESSION_##name,
enum session_state { SESSION_STATE_LIST(SESSION_ENUM) SESSION_STATES };
#undef SESSION_ENUM
#define SESSION_ENUM(name, ...) EV_##name,
enum session_event { SESSION_EVENT_LIST(SESSION_ENUM) SESSION_EVENTS };
#undef SESSION_ENUM

/* The numbers are in the store: new ones go last. */
enum request_kind {
	REQUEST_OPEN,
	REQUEST_RENDER,
	REQUEST_TRAIN,
	REQUEST_SAVE,
	REQUEST_GENERATE,
	REQUEST_CLOSE,
	REQUEST_EVALUATE,
	REQUEST_VERIFY,
	REQUEST_RESTORE,
};

/* One request of a client, until it is answered. Allocated; owned by its session. */
struct session_request {
	struct session_request *next;
	enum request_kind kind;
	struct http_request *http;
	bool of_operation;    /* which owns http; else the session does, until it is answered */
	int fd;		      /* body or datum ids, sealed; VERIFY: the artifact; -1 = none */
	double learning_rate; /* TRAIN */
	uint8_t artifact;     /* OPEN, SAVE, VERIFY: enum artifact_kind, 0 = none */
	char *url;	      /* OPEN, SAVE, VERIFY, RESTORE: to move it; wiped when freed */
	char *restore_url;    /* SAVE: to read it again, or NULL; wiped when freed */
	char *key;	      /* Idempotency-Key, or NULL */
	uint8_t digest[KEPT_DIGEST]; /* of the body, where there is a key */
	unsigned blamed, killed;     /* workers that died at it: by themselves, from outside */
	bool force;		     /* CLOSE, also with steps that no upload holds */
	char sha256[65];	     /* VERIFY: what it has to be, "" = as it was saved last */
	uint64_t size;		     /* the same, 0 = not known */
};

/* An answer that waits for the worker to be gone. */
struct session_refusal {
	unsigned status; /* 0 = none */
	char text[1000];
	int fd; /* the JSON of the detail in the place of text, or -1 */
};

/* KEEPING: what is true, and what is answered, once the store holds it. */
struct session_outcome {
	struct session_record record;
	char json[KEPT_JSON_MAX]; /* the answer, or "" where it is in fd */
	int fd;			  /* or -1 */
	uint64_t offset, len;	  /* in fd */
	uint64_t saved_bytes;	  /* it was a save of so many */
	struct upload upload;	  /* of a state that was uploaded, else empty */
	bool stepped;		  /* it was a step: */
	struct message_trained trained;
};

/* On the way back: where it is in the journal, and what the step there was. */
struct session_restore {
	struct event *timer;
	bool untimed;	  /* it could not be set, which was told */
	unsigned tries;	  /* workers since a request was done, or one was back for long */
	double back_at;	  /* when the last one was back, monotonic seconds; 0: it is not yet */
	unsigned refused; /* of them refused */
	size_t part;	  /* of the datums, next */
	uint64_t step;	  /* done */
	double loss, gradient_norm;
	bool failed;	       /* not to be tried again */
	bool newer;	       /* for its journal is a newer stepd's */
	bool given_up;	       /* by an earlier stepd */
	bool waits_for_device; /* has no slot: it comes back when there is one again */
	bool fetched;	       /* from an upload; a RESTORE that is under way asked for it */
	uint64_t resend_to; /* steps up to this one are lost, and have to be sent again; 0: none */
	bool read;	    /* its datums were read from the disk */
	bool behind;	    /* its worker is at `step`: the datums after it are not there */
};

/* CHECKING: what the session is, unless the store comes to hold that it went back. */
struct session_before {
	bool back; /* it is on its way there */
	struct session_record record;
	uint64_t upload_step, resend_to;
	char upload_sha256[65];
};

enum { QUARANTINE_MAX = 16, QUARANTINE_DIGEST = 32 };

struct session {
	struct stepd *stepd;
	struct session *next; /* of the sessions, newest first */
	enum session_state state;
	struct session_record record;
	char model_path[4096];
	struct slot *slot;		       /* NULL: has none */
	struct child *child;		       /* NULL: has none */
	struct session_request *current;       /* under way, NULL = none */
	struct session_request *first, **last; /* waiting */
	size_t waiting;
	struct session_outcome outcome;
	struct session_refusal refusal; /* CLOSING: for `current` */
	bool opened;   /* a client knows it; a session that is not disappears when it fails */
	bool undone;   /* its worker is ended for a step that could not be kept */
	bool stopping; /* to give up its worker when nothing is under way */
	struct transfer_job *transfer;
	int spool;	       /* the artifact under way, or -1 */
	uint64_t spool_step;   /* SAVING, UPLOADING: the step that the artifact holds */
	uint64_t spool_size;   /* DOWNLOADING and on: bytes of the artifact */
	char spool_sha256[65]; /* as the worker says */
	bool spool_secured;    /* SECURING: it was tried to make it the anchor */
	double snapshot_begun; /* SNAPSHOTTING: monotonic seconds */
	struct datum_log datums;
	struct datum_file datum_file;
	struct anchor anchor;
	struct upload upload;
	struct session_restore restore;
	struct session_before before;
	uint64_t restarts, replay_differences;
	struct event_ring events;
	const char *state_told; /* by the last event about it; a constant */
	const char *ended;	/* the class of the last worker that ended unasked; NULL = none */
	unsigned ends[CHILD_CLASSES]; /* of its workers, those that were not asked for */
	bool stepped;		      /* since stepd started: */
	struct message_trained last_step;
	char sandbox[160]; /* what holds of its worker's, "" = not told */
	uint8_t quarantine[QUARANTINE_MAX][QUARANTINE_DIGEST]; /* requests not tried again */
	size_t quarantined;
};

/* What came with an event; which member is set follows from it. */
struct session_input {
	struct message *answer;		     /* ANSWER, REFUSED */
	const struct message_failed *failed; /* REFUSED */
	struct transfer_result *moved;	     /* MOVED, NOT_MOVED */
	const struct child_death *death;     /* DIED */
	int error; /* ANSWER: set by the action to -EBADMSG if the answer does not decode */
};

/* A session of its own memory, in no list; state DOWNLOADING. NULL: no memory. */
struct session *session_new(struct stepd *stepd);
/* Frees everything, kills its worker, answers nobody. NULL is allowed. */
void session_free(struct session *s);

/* Lets the table act on an event. The session may be gone afterwards. */
void session_event(struct session *s, enum session_event event, struct session_input *input);
const char *session_state_name(enum session_state state);

/* Begins the life of a session whose settings are filled in. Consumes the request, an OPEN. The
   session may be gone afterwards. */
void session_open(struct session *s, struct session_request *request);
/* Puts a request last in line, and lets the table act. Consumes it. */
void session_post(struct session *s, struct session_request *request);
/* Answers a request whose Idempotency-Key was used before, and frees it; false: it was not. */
bool session_answer_again(struct session *s, struct session_request *request);
/* A request without its url; consumes fd, also on failure. NULL: no memory. */
struct session_request *session_request_new(
    enum request_kind kind, struct http_request *http, int fd);
void session_request_free(struct session_request *request);

#endif
