/*
 * The control group that stepd runs in, for what it limits and counts: memory and processors of a
 * service or container, never those of the whole machine. Version 2, else version 1 (one hierarchy
 * a controller), as /proc/self/cgroup and /proc/self/mountinfo have them, also from within a
 * container.
 *
 * `root` is "" but in tests: /proc and /sys are looked for below it.
 */
#ifndef SUPERVISOR_CGROUP_H
#define SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CGROUP_PATH = 4096 };

struct cgroup {
	int version;
	char folder[CGROUP_PATH];
	size_t top; /* bytes of folder that are the mount: groups above it are not to be seen */
};

/* The group that this process is in, by a controller ("memory", "cpu"); the one that was claimed,
   where there is one. 0, or -ENOENT: none is to be seen. */
int cgroup_find(struct cgroup *out, const char *root, const char *controller);

/* The only number of a file of a group; "max" is UINT64_MAX. false: not to be read. */
bool cgroup_number(const char *folder, const char *file, uint64_t *out);
/* The number after `key ` at the start of a line, or -ENOENT. */
int64_t cgroup_counter(const char *path, const char *key);
/* Is the name in a file of a group, among names between blanks? */
bool cgroup_names(const char *folder, const char *file, const char *name);
/* Opens and writes a file of a group at once. 0 or -errno. */
int cgroup_write(const char *folder, const char *file, const char *text);

/* Processors that the quotas of this group and of those above it come to, rounded up, or 0: no
   quota. */
unsigned cgroup_processors(const char *root);

/* Takes the group over that systemd delegated to this service (Delegate=), so that there can be
   groups below it: this process goes to one of its own, for a group that has some holds no
   processes itself. Before the first thread. 0, or what was missing: -ENOENT no group of version 2,
   -EPERM not delegated, -ENOTSUP without the memory controller, or -errno, where nothing has
   changed. */
int cgroup_claim(void);
/* The folder of the group that was claimed, or NULL. */
const char *cgroup_claimed(void);

#endif
