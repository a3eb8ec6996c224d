/* The HTTP part of the program: settings to a listening server. */
#ifndef SUPERVISOR_SERVE_H
#define SUPERVISOR_SERVE_H

#include <stdbool.h>

struct config;
struct stepd;

/* Opens the listening sockets, or takes over those that were handed over (activation.h); nobody is
   served yet. 0, or -errno after a line in the log. What serve_start has not taken from
   s->listen_fds is the caller's to close. */
int serve_listen(struct stepd *s);

/* Parts of the program (stepd.h). */
int serve_start(struct stepd *s);
bool serve_stop(struct stepd *s);
void serve_free(struct stepd *s);

/* Tells everybody whose request is under way that stepd stops without it. */
void serve_hurry(struct stepd *s);

/* What can be found wrong in the settings before anything starts: addresses, folders, files. 0, or
   -EINVAL with a sentence in reason. */
int serve_check(const struct config *c, char reason[512]);

#endif
