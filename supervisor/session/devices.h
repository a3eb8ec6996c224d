/* The GPUs of this start, a part of the program (stepd.h): found before sessions need them. */
#ifndef SUPERVISOR_SESSION_DEVICES_H
#define SUPERVISOR_SESSION_DEVICES_H

#include "supervisor/stepd.h"

/* Where STEPD_DEVICES is cpu, or there is no CUDA worker, it asks nobody and finds none. */
int devices_start(struct stepd *s);
void devices_free(struct stepd *s);

#endif
