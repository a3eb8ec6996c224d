/*
 * Looking for GPUs while stepd runs: one that came has a slot then, one that is gone or computes no
 * more has a closed one. The probe runs in a thread, one at a time, and does not compute on those
 * that sessions have. One that failed under a worker, or was not there for a session of an earlier
 * start, is looked at until it computes, and the sessions come back then by themselves.
 *
 * A device node that was made after stepd started cannot be opened by its workers, where Landlock
 * holds stepd (privileges_files.h): such a GPU is found not to compute, and waits for a restart.
 */
#ifndef SUPERVISOR_SESSION_DEVICES_AGAIN_H
#define SUPERVISOR_SESSION_DEVICES_AGAIN_H

#include "supervisor/session/slot.h"
#include "supervisor/stepd.h"

enum devices_reason {
	DEVICES_ASKED,	/* by SIGHUP, or a worker doubted its GPU: at once */
	DEVICES_LACKED, /* no slot was free: once a minute at most */
	DEVICES_FAILED, /* sessions wait for one: at once, and the later the more often of late */
};

/* 0 or -ENOMEM. stop ends what is under way; free is after its end (offload_finish). */
int devices_again_start(struct stepd *s);
void devices_again_stop(struct stepd *s);
void devices_again_free(struct stepd *s);

/* Begins to look; while it is looking already, once more afterwards for DEVICES_ASKED. */
void devices_look_again(struct stepd *s, enum devices_reason reason);
/* A session has that slot from now on: a search that may compute on its GPU, and so have some of
   the memory that the session plans with, is given up and begun again without it. */
void devices_taken(struct stepd *s, const struct slot *slot);

#endif
