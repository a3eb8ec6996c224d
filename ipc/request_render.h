/*
 * The bodies with conversations: datums:render and samples:generate. The worker reads them; stepd
 * reads them only where there is no worker to ask, for faults come before a session that does not
 * exist. Both answer the same words.
 */
#ifndef IPC_REQUEST_RENDER_H
#define IPC_REQUEST_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/fault.h"
#include "ipc/json.h"

struct request_render {
	/* Valid examples: json_get(example, "example_id") is a string, unique in the array,
	   "messages" an array of at least two, the last one from the assistant. */
	struct json examples;
	size_t count; /* 1 to 10000 */
};

/* 0, or -EINVAL with the faults (also -ENOMEM, with a fault). */
int request_render_parse(struct json_doc *doc, struct request_render *out, struct faults *f);

struct request_generate {
	struct json messages;	 /* as in an example, at least one, any last role; or none */
	const char *prompt;	 /* plain text, or NULL; exactly one of the two is there */
	uint32_t max_new_tokens; /* 1 to 4096, default 64 */
	bool adapter;		 /* false: the base model alone; default true */
};

int request_generate_parse(struct json_doc *doc, struct request_generate *out, struct faults *f);

#endif
