/*
 * The sessions of earlier runs, as stepd starts: their records are read first, and what else is
 * kept of them is found; then those that were open come back.
 */
#ifndef SUPERVISOR_SESSION_SESSIONS_LOAD_H
#define SUPERVISOR_SESSION_SESSIONS_LOAD_H

#include <stdbool.h>

struct stepd;

/* Puts a session for every record of the store into the list, the newest first, each without a
   worker. A record that cannot be read is left in the store, with a line in the log. 0, -ENOMEM, or
   the error of reading the store. */
int sessions_load(struct stepd *s);

/* Gives a device to each session that was open, the newest first while there are devices, then to
   those that an earlier start gave up; they come back in the background. Where there is no GPU for
   one that was on a GPU, it is looked for from now on. 0 or -ENOMEM. */
int sessions_revive_all(struct stepd *s);
/* The same for those that wait for a device while stepd runs: theirs failed under their worker, or
   was not there at the start. Whether all have one. */
bool sessions_come_back(struct stepd *s);

#endif
