/* The body of POST /v1/sessions/{id}/artifacts:verify. */
#ifndef SUPERVISOR_API_REQUEST_VERIFY_H
#define SUPERVISOR_API_REQUEST_VERIFY_H

#include <stdint.h>

#include "ipc/fault.h"
#include "ipc/json.h"
#include "ipc/message.h"
#include "supervisor/transfer/url.h"

struct request_verify {
	enum artifact_kind kind;
	struct url download_url; /* plain: good only if it is one of our own objects */
	const char *sha256;	 /* 64 hex digits; NULL: as it was saved last */
	uint64_t size_bytes;	 /* 0 = not told */
};

/* 0, or -EINVAL with faults. Views into doc. */
int request_verify_parse(struct json_doc *doc, struct request_verify *out, struct faults *f);

#endif
