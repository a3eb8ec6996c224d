/*
 * All sessions: those that run, and those the store remembers.
 */
#ifndef SUPERVISOR_SESSION_SESSIONS_H
#define SUPERVISOR_SESSION_SESSIONS_H

#include "supervisor/session/session.h"
#include "supervisor/session/slot.h"
#include "supervisor/store/seal.h"

struct event;

struct sessions {
	struct slots slots;
	struct session *first;	      /* newest first */
	char *spool;		      /* the folder of artifacts under way */
	struct event *sweep;	      /* now and then */
	struct seal_key seal_key;     /* of what is sealed on the disk */
	bool ending;		      /* threads are waited for; nothing goes on */
	struct anchoring *anchorings; /* anchor.c: on their way to the disk */
	/* A session is at an earlier step again: what was told of those behind it is not so any
	   more. Set by who keeps such answers too, or NULL. */
	void (*went_back)(struct stepd *stepd, const char *id, uint64_t step);
};

/* A part of the program (stepd.h), after the store. */
int sessions_start(struct stepd *s);
bool sessions_stop(struct stepd *s);
void sessions_free(struct stepd *s);

/* The sentence of a 404. */
extern const char sessions_not_found[];

/* The session with that id, or NULL. */
struct session *sessions_find(struct stepd *s, const char *id);

/* A new session with an id, a slot and its place in the list; settings are the caller's to fill.
   NULL with *status and *sentence: 409 every slot taken, 503 no memory, or no
   device that computes. */
struct session *sessions_new(struct stepd *s, unsigned *status, const char **sentence);
/* A slot was taken or given back: what /healthz says of it. */
void sessions_slots_changed(struct stepd *s);
/* Answers an opening whose Idempotency-Key came before, and frees it: with the session that it
   opened, or as soon as that is open. false: it did not. */
bool sessions_open_again(struct stepd *s, struct session_request *request);
/* Gives the slot back, where it has one. */
void sessions_release(struct session *s);
/* Writes the session's record, in the background. */
void sessions_keep(struct session *s);
/* session_key.c: is it neither here nor in the store? One that could not be read is left whole. */
bool sessions_is_unknown(struct stepd *s, const char *id);
/* session_key.c: removes journals of sessions that are over, and answers kept long enough. */
void sessions_sweep(struct stepd *s);
/* Puts a session at the head of the list, which owns it from then on. */
void sessions_add(struct session *s);
/* Takes a session out of the list and frees it. */
void sessions_remove(struct session *s);

#endif
