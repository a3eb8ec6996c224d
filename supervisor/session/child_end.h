/*
 * How a worker ended, as one of a closed set: from its exit status, what it said last, what stepd
 * did to it, and whether the kernel's out-of-memory killer ran meanwhile. And what is done then.
 */
#ifndef SUPERVISOR_SESSION_CHILD_END_H
#define SUPERVISOR_SESSION_CHILD_END_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* What is done about it, the same each time. */
enum child_remedy {
	REMEDY_NONE,
	REMEDY_RETRY, /* another worker: nobody's fault, the request under way is tried again */
	REMEDY_BLAME, /* another worker; a request that it happens to twice is refused from then on
		       */
	REMEDY_PROBE, /* no other worker on the device until a probe finds it sound */
};

/* X(NAME, "name in records and logs", "what happened, after `the worker `", remedy) */
#define CHILD_END_LIST(X)                                                                          \
	X(CLEAN, "clean", "ended as asked", NONE)                                                  \
	X(START_FAILED, "start_failed", "ended before it was ready", BLAME)                        \
	X(EXITED, "exited", "gave up", BLAME)                                                      \
	X(KILLED, "killed", "was killed from outside", RETRY)                                      \
	X(SIGNAL, "signal", "crashed", BLAME)                                                      \
	X(HOST_OOM, "host_oom", "was killed because memory ran out", BLAME)                        \
	X(DEVICE_OOM, "device_oom", "ran out of device memory", BLAME)                             \
	X(DEVICE_FAULT, "device_fault", "failed on its device", BLAME)                             \
	X(DEVICE_LOST, "device_lost", "lost its device", PROBE)                                    \
	X(DEVICE_ECC, "device_ecc", "met a memory error of its device", PROBE)                     \
	X(SANDBOX, "sandbox", "broke its sandbox", BLAME)                                          \
	X(BAD_FRAME, "bad_frame", "sent a message that does not decode", BLAME)                    \
	X(HANG, "hang", "did not answer in time", BLAME)

#define CHILD_END_ENUM(name, ...) CHILD_##name,
enum child_class { CHILD_END_LIST(CHILD_END_ENUM) CHILD_CLASSES };
#undef CHILD_END_ENUM

/* What was known when it was reaped. */
struct child_facts {
	int code, status;	/* si_code, si_status of waitid */
	bool was_ready;		/* it had said READY */
	bool asked_to_end;	/* CLOSE or TERM was sent because its session ended */
	bool hung, bad_frame;	/* stepd ended it for that */
	bool oom_killed;	/* the counter of out-of-memory kills rose while it lived */
	const char *last_class; /* of LAST_WORDS, "" = none */
};

enum child_class child_classify(const struct child_facts *facts);
const char *child_class_name(enum child_class class);
const char *child_class_text(enum child_class class);
enum child_remedy child_class_remedy(enum child_class class);

/* Out-of-memory kills so far in our own cgroup (v2, else v1), else of the whole machine. root: ""
   but in tests. -ENOENT if nothing could be read. */
int64_t child_oom_kills(const char *root);

#endif
