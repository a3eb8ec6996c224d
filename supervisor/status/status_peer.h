/* The two things about the status socket that the kernel decides: where it is, and who asks. */
#ifndef SUPERVISOR_STATUS_STATUS_PEER_H
#define SUPERVISOR_STATUS_STATUS_PEER_H

#include <stdbool.h>

/* A bound socket there, mode 0660, that does not block and does not listen yet. What an earlier
   stepd left behind is removed first. fd; -EADDRINUSE if somebody listens there; -EEXIST if it is
   no socket; or -errno. */
int status_peer_listen(const char *path);
/* Is the other end root, our own user, or a member of our group? */
bool status_peer_may_ask(int fd);

#endif
