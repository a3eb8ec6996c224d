/* Asking a stepd of this machine for its status document, by its Unix socket. */
#ifndef SUPERVISOR_CTL_STATUS_ASK_H
#define SUPERVISOR_CTL_STATUS_ASK_H

#include "ipc/json.h"

/* Where to ask: what was named, else what stepd's settings in the environment say, else the place
   of the systemd unit, else of a stepd of one's own. A new string, or NULL after a line on
   stderr. */
char *status_socket_path(const char *named);
/* 0 with *doc, to be freed; CTL_UNREACHABLE or CTL_REFUSED after a line on stderr that names the
   path. */
int status_ask(const char *path, struct json_doc **doc);

#endif
