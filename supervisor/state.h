/* The state folder: made if missing, closed to others, held by one stepd at a time. */
#ifndef SUPERVISOR_STATE_H
#define SUPERVISOR_STATE_H

#include <stddef.h>

/* Opens the folder (made with its parents, mode 0700) and locks it until the descriptor is closed.
   fd; -EBUSY: another stepd holds it; -EPERM: it belongs to another user; or -errno. */
int state_open(const char *path);
/* Writes a small file in the folder, whole or not at all: mode 0600, durable. 0 or -errno. */
int state_file_write(int state_fd, const char *name, const void *data, size_t len);
/* A folder in it, mode 0700, made if missing. fd or -errno. */
int state_folder(int state_fd, const char *name);

#endif
