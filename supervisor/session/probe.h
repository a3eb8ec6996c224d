/*
 * What GPUs there are, as `stepd-worker-cuda --probe` tells it: a child computes on each and says
 * whether the result was right, so that stepd itself needs no driver.
 */
#ifndef SUPERVISOR_SESSION_PROBE_H
#define SUPERVISOR_SESSION_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICES_MAX = 16 };

struct device {
	char uuid[64]; /* "GPU-…" or "MIG-…"; "" = the driver could not tell */
	char name[64], capability[16], error[160]; /* printable; error: "" = verified */
	uint64_t memory;			   /* bytes */
	bool verified;				   /* a product on it came out right */
};

struct devices {
	struct device at[DEVICES_MAX]; /* by the driver's index */
	size_t count;
};

/* Runs program --probe, for `seconds` at most, and waits for it. 0, or -errno with no device:
   -ETIMEDOUT, -EBADMSG (not the answer of a probe), -ECHILD (it failed). */
int probe_run(const char *program, unsigned seconds, struct devices *out);
/* The answer of a probe: 0 or -EBADMSG. */
int probe_parse(const char *text, size_t len, struct devices *out);

#endif
