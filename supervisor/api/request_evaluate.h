/* The body of POST /v1/sessions/{id}/datums:evaluate. */
#ifndef SUPERVISOR_API_REQUEST_EVALUATE_H
#define SUPERVISOR_API_REQUEST_EVALUATE_H

#include <stddef.h>

#include "ipc/fault.h"
#include "ipc/json.h"

struct request_evaluate {
	struct json datum_ids; /* a list of strings */
	size_t count;	       /* at least 1; an id may come twice */
};

/* 0, or -EINVAL with faults. Views into doc. */
int request_evaluate_parse(struct json_doc *doc, struct request_evaluate *out, struct faults *f);

#endif
