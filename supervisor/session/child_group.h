/*
 * The bounds of a worker's memory: a control group of its own, below the one that stepd claimed
 * (supervisor/cgroup.h), where what it uses is counted, limited and, beyond that, ends that worker
 * and nobody else. Where there is none: RLIMIT_DATA, by which an allocation fails and the worker
 * refuses the request (507). That counts private memory as it is asked for, used or not; the mapped
 * model is not part of it.
 */
#ifndef SUPERVISOR_SESSION_CHILD_GROUP_H
#define SUPERVISOR_SESSION_CHILD_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, "name in status and log") */
#define CHILD_BOUND_LIST(X)                                                                        \
	X(NONE, "nothing")                                                                         \
	X(RLIMIT, "rlimit")                                                                        \
	X(CGROUP, "cgroup")

#define CHILD_BOUND_ENUM(name, ...) CHILD_BOUND_##name,
enum child_bound { CHILD_BOUND_LIST(CHILD_BOUND_ENUM) CHILD_BOUNDS };
#undef CHILD_BOUND_ENUM

const char *child_bound_name(enum child_bound bound);

struct child_group {
	unsigned number; /* of its folder; 0 = there is none */
	int entry;	 /* opened for a process to write "0" to: it is in then; -1 = closed */
	uint64_t memory; /* bytes that it may use, 0 = no limit */
	uint64_t data;	 /* RLIMIT_DATA of a process without a group, 0 = none */
	int64_t kills;	 /* without a group: those of stepd's at the start, negative = not known */
};

/* What a worker's memory is held by, and to how much. */
struct child_memory {
	enum child_bound bound;
	uint64_t limit, peak; /* bytes; 0 = no limit, not known */
};

/* Makes an empty group that may use `memory` bytes (0 = no limit) and no swap; where there can be
   none, *out says what holds in its place. To be freed. */
void child_group_new(struct child_group *out, uint64_t memory);
/* Nobody else goes in. */
void child_group_entered(struct child_group *g);
/* Has the kernel ended its process because memory ran out? Of a group that is counted exactly;
   without one somebody near it may have been meant. */
bool child_group_oom_killed(const struct child_group *g);
struct child_memory child_group_memory(const struct child_group *g);
/* Ends what is left in it and removes it. May be called again. */
void child_group_free(struct child_group *g);

#endif
