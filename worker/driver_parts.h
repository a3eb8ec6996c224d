/*
 * The parts that a GPU may be cut into (MIG), as the driver's management library knows them. It is
 * opened only where a part is asked for, so that nothing is linked with it.
 */
#ifndef WORKER_DRIVER_PARTS_H
#define WORKER_DRIVER_PARTS_H

#include "ipc/refusal.h"

struct driver_part {
	char bus[16];	     /* of its GPU: "0000:3b:00.0" */
	int minor;	     /* of its GPU: /dev/nvidiaN */
	int instance, share; /* what the driver calls GPU instance and compute instance */
};

/* The part by its UUID "MIG-...". 0, or -1 with *r: 503, no such part, or no libnvidia-ml.so.1.
   Before the first thread: the library is closed again. */
int driver_part_find(struct driver_part *out, const char *uuid, struct refusal *r);

#endif
