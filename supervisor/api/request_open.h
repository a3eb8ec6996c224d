/* The body of POST /v1/sessions: the contract's fields and stepd's own. */
#ifndef SUPERVISOR_API_REQUEST_OPEN_H
#define SUPERVISOR_API_REQUEST_OPEN_H

#include <stdint.h>

#include "ipc/fault.h"
#include "ipc/json.h"
#include "supervisor/transfer/url.h"

enum { TARGET_MODULES_MAX = 4096 }; /* bytes of all names joined, with the NUL */

struct request_open {
	const char *base_model;
	const char *model_revision; /* 40 hex digits, or NULL */
	uint32_t lora_rank;
	uint32_t seed;
	uint64_t maximum_datum_tokens;	  /* 0 = no limit */
	struct url resume_download_url;	  /* text "" = none */
	struct url sampling_download_url; /* at most one of the two */
	/* Ours. */
	double lora_alpha; /* 0 = 2 * rank */
	double lora_dropout;
	char target_modules[TARGET_MODULES_MAX]; /* "all-linear", or names joined by commas */
	double weight_decay, beta1, beta2, epsilon;
	double max_grad_norm; /* 0 = no clipping */
};

/* The values of fields that a request does not name (numerics.md, session API). */
void request_open_defaults(struct request_open *out);
/* Reads the document over *out, which holds the defaults. 0, or -EINVAL with the faults. Strings
   are views into the document. */
int request_open_parse(struct json_doc *doc, struct request_open *out, struct faults *f);

#endif
