/*
 * Signals as events of the loop, by a signalfd: they wait in the kernel until they are read. A
 * handler that writes to a pipe could lose one.
 */
#ifndef SUPERVISOR_SIGNALS_H
#define SUPERVISOR_SIGNALS_H

struct event_base;
struct signals;

/* From now on SIGTERM, SIGINT and SIGHUP are blocked in this thread and those it starts, and told
   from the loop. 0 or -errno. */
int signals_open(
    struct signals **out, struct event_base *base, void (*told)(void *ctx, int number), void *ctx);
/* Nothing is told any more; they stay blocked: one that comes this late does not make an ordinary
   end another one. NULL is allowed. */
void signals_close(struct signals *s);

#endif
