/* The GPUs of this machine, a part of the program (stepd.h): found before sessions need them, and
   looked for again (devices_again.h). */
#ifndef SUPERVISOR_SESSION_DEVICES_H
#define SUPERVISOR_SESSION_DEVICES_H

#include "supervisor/stepd.h"

struct config;
struct devices;

/* Where none is wanted, it asks nobody and finds none. */
int devices_start(struct stepd *s);
/* Ends a search that is under way. */
bool devices_stop(struct stepd *s);
void devices_free(struct stepd *s);

/* Where STEPD_DEVICES is cpu, or there is no CUDA worker, GPUs are not. */
bool devices_wanted(const struct config *c);
/* What was found, or why nothing was (devices_find), is what is known from now on; what is new of
   it goes to the log, and to /healthz. */
void devices_take(struct stepd *s, const struct devices *found, int error);

#endif
