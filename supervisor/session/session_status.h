/* What GET /v1/sessions and GET /v1/sessions/{id} say about a session. */
#ifndef SUPERVISOR_SESSION_SESSION_STATUS_H
#define SUPERVISOR_SESSION_SESSION_STATUS_H

#include "ipc/json_write.h"
#include "supervisor/session/session.h"

/* Steps whose result no upload holds. */
uint64_t session_unsaved_steps(const struct session *s);
/* One object. */
void session_status_write(const struct session *s, struct json_writer *w);

#endif
