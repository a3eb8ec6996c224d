/*
 * The status socket (STEPD_STATUS_SOCKET): a Unix stream socket for the people who look after this
 * machine. Who connects is given the status document (status_write.h) and the end of the file; it
 * is asked nothing. root, the user of stepd and members of its group may; the kernel says who it
 * is.
 *
 * It has nothing in common with HTTP but the event loop, so it answers when no connection is left
 * there or TLS is broken. What may block is read in a thread, and answered without after a while.
 */
#ifndef SUPERVISOR_STATUS_STATUS_H
#define SUPERVISOR_STATUS_STATUS_H

#include <stdbool.h>

struct config;
struct stepd;

#define STATUS_SOCKET "status.sock" /* in the state folder */

/* A part of the program (stepd.h). */
int status_start(struct stepd *s);
void status_free(struct stepd *s);

/* Is STEPD_STATUS_SOCKET a place for a socket? 0, or -EINVAL with a sentence in reason. */
int status_check(const struct config *c, char reason[512]);

#endif
