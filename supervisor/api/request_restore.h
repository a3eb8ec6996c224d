/* The body of POST /v1/sessions/{id}:restore: where to read the state that the session uploaded. */
#ifndef SUPERVISOR_API_REQUEST_RESTORE_H
#define SUPERVISOR_API_REQUEST_RESTORE_H

#include "ipc/fault.h"
#include "ipc/json.h"
#include "supervisor/transfer/url.h"

struct request_restore {
	struct url restore_url; /* text "" = the one that artifacts:save told */
};

/* 0, or -EINVAL with the faults. */
int request_restore_parse(struct json_doc *doc, struct request_restore *out, struct faults *f);

#endif
