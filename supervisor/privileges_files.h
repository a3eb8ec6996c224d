/* Where stepd and its programs may write, by Landlock: the kernel's own list. */
#ifndef SUPERVISOR_PRIVILEGES_FILES_H
#define SUPERVISOR_PRIVILEGES_FILES_H

struct config;

/* From now on files are written, made and removed below the state folder and at the few other
   places named in the source, no TCP port is opened for listening, and no signal reaches a process
   that was not started from here (where the kernel can; -ENOSYS or -EOPNOTSUPP: it has no
   Landlock, or one before the second version, which would forbid renames). 0, or -errno, where
   nothing has changed. */
int privileges_files(const struct config *c);

#endif
