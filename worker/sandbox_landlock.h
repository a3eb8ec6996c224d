/*
 * Landlock, the kernel's own list of the files that a process may still open; by bare system calls,
 * for C libraries have no names for them.
 */
#ifndef WORKER_SANDBOX_LANDLOCK_H
#define WORKER_SANDBOX_LANDLOCK_H

#include <stddef.h>

enum landlock_right {
	LANDLOCK_READ,	 /* a file, or a folder with all that is in it */
	LANDLOCK_SOURCE, /* a device node, to read */
	LANDLOCK_DEVICE, /* a device node: to read, to write and to command (ioctl) */
	LANDLOCK_WRITE,	 /* files of a folder that are there, to read and write */
};

struct landlock_rule {
	const char *path;
	enum landlock_right right;
};

/* Leaves this thread and all that come the reading of the model at `path` (a folder with what its
   links lead to, or a file; NULL: none), of the few other things that libraries read, and what
   `rules` say; no TCP, no signals to others where the kernel can. Returns the version of Landlock
   (from 1 on), or -errno (-ENOSYS, -EOPNOTSUPP: the kernel has none), where nothing has changed. */
int sandbox_landlock(const char *path, const struct landlock_rule *rules, size_t count);

#endif
