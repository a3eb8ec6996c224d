/*
 * What GPUs there are, as `stepd-worker-cuda --probe` tells it: a child computes on each and says
 * whether the result was right, so that stepd itself needs no driver.
 */
#ifndef SUPERVISOR_SESSION_PROBE_H
#define SUPERVISOR_SESSION_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEVICES_MAX = 16, DEVICE_ERROR_MAX = 320 };

struct device {
	char uuid[64]; /* "GPU-…" or "MIG-…"; "" = the driver could not tell */
	char bus[16];  /* its place: "0000:3b:00.0"; "" = not told */
	char name[64], capability[16], error[DEVICE_ERROR_MAX]; /* printable; "" = verified */
	uint64_t memory;					/* bytes */
	bool verified;						/* a product on it came out right */
	bool held; /* it was not tried: a session has it */
};

struct devices {
	struct device at[DEVICES_MAX]; /* by the driver's index */
	size_t count;
	char error[DEVICE_ERROR_MAX]; /* why there is none, printable; "" = not told */
	bool driver;		      /* the kernel has NVIDIA's driver */
};

struct probe_options {
	const char *program;
	const char *visible;	 /* the UUID of the only GPU to look at, or NULL: all */
	const char *held;	 /* UUIDs not to compute on, comma separated, or NULL */
	bool no_sandbox;	 /* outside of the workers' sandbox */
	unsigned seconds;	 /* how long it may take */
	const atomic_bool *stop; /* true: it is over at once (-ECANCELED); or NULL */
	uid_t uid;		 /* whom it becomes where stepd is the superuser */
	gid_t gid;
};

/* Runs program --probe and waits for it. 0, or -errno with no device: -ETIMEDOUT, -EBADMSG (not the
   answer of a probe), -ECHILD (it failed), -ECANCELED. Any thread may. */
int probe_run(const struct probe_options *options, struct devices *out);
/* The one with that UUID, or NULL: none, or the UUID is "". */
struct device *devices_by_uuid(const struct devices *all, const char *uuid);
/* The answer of a probe: 0 or -EBADMSG. */
int probe_parse(const char *text, size_t len, struct devices *out);

#endif
