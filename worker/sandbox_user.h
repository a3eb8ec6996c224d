/*
 * A user of its own for a worker that the superuser started.
 */
#ifndef WORKER_SANDBOX_USER_H
#define WORKER_SANDBOX_USER_H

/* Becomes this user and group ("65534:65534"), in no other group, for good; capabilities that are
   permitted stay so and are in effect no more. Before the first thread. 0, or -errno: it is who it
   was, or, where only the group could be changed, that of the group. */
int sandbox_user(const char *ids);

#endif
