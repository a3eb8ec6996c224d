/* The body of POST /v1/sessions/{id}/artifacts:save: the contract's fields and restore_url. */
#ifndef SUPERVISOR_API_REQUEST_SAVE_H
#define SUPERVISOR_API_REQUEST_SAVE_H

#include "ipc/fault.h"
#include "ipc/json.h"
#include "ipc/message.h"
#include "supervisor/transfer/url.h"

struct request_save {
	enum artifact_kind kind;
	const char *name; /* a view into the document */
	struct url upload_url;
	struct url restore_url; /* to read the artifact again after a crash; text "" = none */
};

/* 0, or -EINVAL with the faults. */
int request_save_parse(struct json_doc *doc, struct request_save *out, struct faults *f);

#endif
