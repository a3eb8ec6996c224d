/*
 * Rendering: an example of datums:render to the datum that training sees, by the rule of the
 * contract. full = the template over all messages, prefix = over all but the last with a generation
 * prompt; full is tokenized once; a token is supervised iff it starts at or after prefix's end.
 */
#ifndef WORKER_TEXT_RENDER_H
#define WORKER_TEXT_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"
#include "ipc/refusal.h"
#include "worker/text/datum.h"
#include "worker/text/template.h"
#include "worker/tokenizer/tokenizer.h"

/* What one session renders with; nothing is owned. May be used by several threads. */
struct renderer {
	const struct tokenizer *tokenizer;
	const struct chat_template *template;
	struct json variables;	       /* an object: special tokens by the names templates have */
	const char *session_id;	       /* goes into the datums' ids */
	uint64_t maximum_datum_tokens; /* 0 = no limit */
};

/* Renders messages (an array as the wire has it, the last of role assistant) to *out, which the
   caller frees by datum_fini. 0, or -1 with the 422 of the contract: the template refuses the
   conversation, does not keep the border of the target, nothing is supervised, or the limit cannot
   keep the target; in this order. */
int datum_render(struct datum *out, const struct renderer *r, const char *example_id,
    struct json messages, struct refusal *refusal);
/* Frees what is inside; a zeroed datum is allowed. */
void datum_fini(struct datum *d);

/* The rule alone: of `count` tokens, how many at the front are context (end before the border or
   straddle it), and how many of those a limit (0: none) drops. 0, or -1: the limit cannot keep the
   target. */
int datum_border(const struct token *tokens, size_t count, size_t prefix_end, uint64_t limit,
    size_t *context, size_t *dropped);

#endif
