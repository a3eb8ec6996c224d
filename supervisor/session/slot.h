/*
 * The devices that sessions train on. A session has a slot for itself from its opening until its
 * worker has gone; all slots taken means 409.
 */
#ifndef SUPERVISOR_SESSION_SLOT_H
#define SUPERVISOR_SESSION_SLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/session/probe.h"

enum { SLOTS_MAX = DEVICES_MAX };

/* A session stays on its kind: another one rounds otherwise. Kept in its record. */
enum slot_kind {
	SLOT_ANY = 0, /* of a session of an older stepd: not known */
	SLOT_CPU = 1,
	SLOT_GPU = 2,
};

struct slot {
	enum slot_kind kind;
	char device[64]; /* "cpu", or the UUID of the GPU */
	char bus[16];	 /* where the GPU is, "" = not known */
	char name[64];	 /* what people call it */
	bool taken;
	bool closed;  /* to new sessions: the GPU is gone, or computes no more */
	bool doubted; /* its worker said so: to be looked at when it is given back */
	bool failed;  /* under a worker: closed until a probe has computed on it */
};

struct slots {
	struct slot slots[SLOTS_MAX];
	size_t count;		     /* 0: GPUs were asked for, and none computes */
	char first[DEVICES_MAX][64]; /* by index: the UUID of the GPU that had it first, or "" */
};

/* wanted: STEPD_DEVICES. A GPU has a slot if it is verified. 0, or -EINVAL where something is named
   that is not there, or twice: unknown says what. A whole UUID may be that of a GPU that failed,
   and where no GPU was found at all, nobody can know. */
int slots_init(struct slots *s, const struct devices *found, const char *wanted, char unknown[128]);
/* What was found later: slots of GPUs that are gone or do not verify are closed, of those that do,
   opened; GPUs that are new have slots if `wanted` means them, and then a CPU that had one because
   there was none is closed. A session stays where it is. */
void slots_update(struct slots *s, const struct devices *found, const char *wanted);
/* Does STEPD_DEVICES mean this one of those that were found? */
bool slots_mean(
    const struct slots *s, const struct devices *found, const char *wanted, const struct device *d);
/* The next UUID of STEPD_DEVICES, from *at on, that was not found; *at is behind it then. false:
   there is none. */
bool slots_next_missing(const char **at, const struct devices *found, char uuid[64]);
/* Is there a slot of that device, closed or not? */
bool slots_have_device(const struct slots *s, const char *device);
/* A free slot of that kind that is not closed, now taken, or NULL. */
struct slot *slots_take(struct slots *s, enum slot_kind kind);
/* Is there one of that kind, free or not, that is not closed? */
bool slots_have(const struct slots *s, enum slot_kind kind);
/* NULL is allowed. */
void slot_release(struct slot *slot);
bool slots_any_taken(const struct slots *s);
bool slots_any_free(const struct slots *s, enum slot_kind kind);

#endif
