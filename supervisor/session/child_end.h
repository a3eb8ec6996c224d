/*
 * How a worker ended, as one of a closed set: from its exit status, what it said last, what stepd
 * did to it, and whether the kernel's out-of-memory killer ran meanwhile.
 */
#ifndef SUPERVISOR_SESSION_CHILD_END_H
#define SUPERVISOR_SESSION_CHILD_END_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* X(NAME, "name in records and logs", "what happened, after `the worker `") */
#define CHILD_END_LIST(X)                                                                          \
	X(CLEAN, "clean", "ended as asked")                                                        \
	X(START_FAILED, "start_failed", "ended before it was ready")                               \
	X(EXITED, "exited", "gave up")                                                             \
	X(KILLED, "killed", "was killed from outside")                                             \
	X(SIGNAL, "signal", "crashed")                                                             \
	X(HOST_OOM, "host_oom", "was killed because memory ran out")                               \
	X(DEVICE_OOM, "device_oom", "ran out of device memory")                                    \
	X(DEVICE_LOST, "device_lost", "lost its device")                                           \
	X(SANDBOX, "sandbox", "broke its sandbox")                                                 \
	X(BAD_FRAME, "bad_frame", "sent a message that does not decode")                           \
	X(HANG, "hang", "did not answer in time")

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

/* Out-of-memory kills so far in our own cgroup (v2, else v1), else of the whole machine. root: ""
   but in tests. -ENOENT if nothing could be read. */
int64_t child_oom_kills(const char *root);

#endif
