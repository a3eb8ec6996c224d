/*
 * What the system knows about stepd and its workers: memory, disks, the memory cgroup. Reading it
 * may block (a disk that does not answer), so it is read in a thread that touches nothing but its
 * own struct. What cannot be read is "not known", never an error: a worker may be gone by then.
 */
#ifndef SUPERVISOR_STATUS_STATUS_FACTS_H
#define SUPERVISOR_STATUS_STATUS_FACTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/boot_id.h"
#include "supervisor/session/slot.h"

/* X(NAME, "name in status", "folder in the state folder") */
#define STATUS_DISK_LIST(X)                                                                        \
	X(STATE, "state", "")                                                                      \
	X(SPOOL, "spool", "/spool")                                                                \
	X(STORE, "store", "/store")

#define STATUS_DISK_ENUM(name, ...) STATUS_DISK_##name,
enum status_disk { STATUS_DISK_LIST(STATUS_DISK_ENUM) STATUS_DISKS };
#undef STATUS_DISK_ENUM

struct fact_disk {
	bool known;
	uint64_t device;	      /* which file system it is */
	uint64_t bytes, bytes_free;   /* free: for those who are not root */
	uint64_t inodes, inodes_free; /* both 0 where the file system has no such limit */
};

struct fact_memory {
	bool known;
	uint64_t rss, peak; /* bytes */
};

struct fact_cgroup {
	bool known;
	uint64_t current, limit; /* bytes; limit 0 = none */
};

struct status_facts {
	/* asked */
	void *owner; /* of who asks; not touched here */
	char state_dir[PATH_MAX];
	pid_t workers[SLOTS_MAX];
	size_t worker_count;
	/* found */
	struct fact_disk disks[STATUS_DISKS];
	struct fact_memory self, worker_memory[SLOTS_MAX];
	struct fact_cgroup cgroup;
	int64_t oom_kills;     /* of our cgroup, else of the machine; -1 = not known */
	int64_t open_files;    /* descriptors of stepd, -1 = not known */
	char boot_id[BOOT_ID]; /* "" = not known */
};

/* Fills in what is found. root is "" but in tests: /proc and /sys are looked for below it. */
void status_facts_read(struct status_facts *f, const char *root);
/* Of a worker, or NULL where nothing is known. */
const struct fact_memory *status_facts_worker(const struct status_facts *f, pid_t pid);
const char *status_disk_name(enum status_disk disk);

#endif
