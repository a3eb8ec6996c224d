/*
 * What stepd gives up before it serves anybody, for itself and for every program it starts, for
 * good. What it keeps stands in privileges.c, each with its reason. A worker gives up more
 * (worker/sandbox.h); nothing here is in the way of that.
 *
 * What the kernel does not offer is left out and said in the log; STEPD_SANDBOX=off leaves all out.
 */
#ifndef SUPERVISOR_PRIVILEGES_H
#define SUPERVISOR_PRIVILEGES_H

struct config;

/* Before the first thread; sockets listen already, the state folder is there. Writes one line to
   the log, and a warning for the superuser. */
void privileges_drop(const struct config *c);
/* What that line says: "off", or "closed memory, ...; without ...; kept: ...". A view. */
const char *privileges_text(void);

#endif
