/* The body of POST /v1/objects:sign: a place in stepd's own object store. */
#ifndef SUPERVISOR_API_REQUEST_SIGN_H
#define SUPERVISOR_API_REQUEST_SIGN_H

#include <stdint.h>

#include "ipc/fault.h"
#include "ipc/json.h"

struct request_sign {
	const char *object;  /* "" = a new one; else one to sign again: 32 hex digits, a view */
	uint64_t max_bytes;  /* largest object that may be put; default 8 GiB, which is the most */
	uint32_t expires_in; /* seconds the URLs are good for: 1 to 604800; default 86400 */
};

/* 0, or -EINVAL with the faults. Every field may be absent. */
int request_sign_parse(struct json_doc *doc, struct request_sign *out, struct faults *f);

#endif
