/*
 * Landlock, the kernel's own list of the files that a process may still open; by bare system calls,
 * for C libraries have no names for them.
 */
#ifndef WORKER_SANDBOX_LANDLOCK_H
#define WORKER_SANDBOX_LANDLOCK_H

/* Leaves this thread and all that come the reading of the model at `path` (a folder with what its
   links lead to, or a file) and of the few other things that libraries read; no TCP, no signals to
   others where the kernel can. Returns the version of Landlock (from 1 on), or -errno (-ENOSYS,
   -EOPNOTSUPP: the kernel has none), where nothing has changed. */
int sandbox_landlock(const char *path);

#endif
