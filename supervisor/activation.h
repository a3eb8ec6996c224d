/*
 * Listening sockets that another program opened and handed over, as systemd does for a stepd.socket
 * (sd_listen_fds(3)): LISTEN_FDS of them, from descriptor 3 on, if LISTEN_PID is this process. So
 * clients of a stepd that restarts wait in line and are not refused.
 */
#ifndef SUPERVISOR_ACTIVATION_H
#define SUPERVISOR_ACTIVATION_H

#include <stddef.h>

/* Takes the sockets over: listening TCP, made non-blocking and closed on exec; the variables are
   taken out of the environment. Returns how many (0: none were handed over), or -EINVAL with a
   sentence in reason that names the descriptor which is no such socket. */
int activation_take(int *fds, size_t max, char reason[256]);

#endif
