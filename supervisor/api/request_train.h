/* The body of POST /v1/sessions/{id}/batches:train. */
#ifndef SUPERVISOR_API_REQUEST_TRAIN_H
#define SUPERVISOR_API_REQUEST_TRAIN_H

#include <stddef.h>

#include "ipc/fault.h"
#include "ipc/json.h"

struct request_train {
	struct json datum_ids; /* an array of strings: json_foreach, json_string */
	size_t count;	       /* of them, at least 1 */
	double learning_rate;  /* finite, above 0 */
};

/* 0, or -EINVAL with the faults. */
int request_train_parse(struct json_doc *doc, struct request_train *out, struct faults *f);

#endif
