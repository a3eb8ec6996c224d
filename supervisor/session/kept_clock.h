/*
 * The clock by which kept answers and operations grow old. The wall clock is set by people and by
 * the network: were it asked, a step whose key is a minute old would be done again after a jump. So
 * the time since the start of the machine is, from what the last stepd left in the store; the wall
 * clock counts only from one start of the machine to the next, and then only forward.
 */
#ifndef SUPERVISOR_SESSION_KEPT_CLOCK_H
#define SUPERVISOR_SESSION_KEPT_CLOCK_H

#include <stdint.h>

struct stepd;

/* At the start, with the store open. Without a record that can be read it goes on from the wall
   clock. 0, or -errno of the store: then where it was is not known, and nothing was changed. */
int kept_clock_start(struct stepd *s);
/* Leaves in the store where it is, now and then: for the next start of the machine. */
void kept_clock_keep(struct stepd *s);
/* Seconds, near those since 1970. */
int64_t kept_clock_seconds(void);

#endif
