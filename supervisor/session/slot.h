/*
 * The devices that sessions train on. A session has a slot for itself from its opening until its
 * worker has gone; all slots taken means 409.
 */
#ifndef SUPERVISOR_SESSION_SLOT_H
#define SUPERVISOR_SESSION_SLOT_H

#include <stdbool.h>
#include <stddef.h>

enum { SLOTS_MAX = 16 };

struct slot {
	const char *device; /* a constant: "cpu" */
	bool taken;
};

struct slots {
	struct slot slots[SLOTS_MAX];
	size_t count;
};

/* devices: STEPD_DEVICES. */
void slots_init(struct slots *s, const char *devices);
/* A free slot, now taken, or NULL. */
struct slot *slots_take(struct slots *s);
/* NULL is allowed. */
void slot_release(struct slot *slot);
bool slots_any_taken(const struct slots *s);
bool slots_any_free(const struct slots *s);

#endif
