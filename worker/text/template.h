/*
 * Chat templates: the Jinja2 subset that published ones use, compiled once and rendered for each
 * conversation, equal to what transformers' apply_chat_template(tokenize=False) gives. Both the
 * source and the conversations are hostile: time, memory, output and nesting are bounded (jinja.h).
 */
#ifndef WORKER_TEXT_TEMPLATE_H
#define WORKER_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "ipc/json.h"
#include "ipc/refusal.h"

struct chat_template;

/* Compiles len bytes of source (copied). 0, or -1 with r: what is wrong or not supported and the
   line it stands on. */
int chat_template_compile(
    struct chat_template **out, const char *source, size_t len, struct refusal *r);
/* NULL is allowed. */
void chat_template_free(struct chat_template *t);

/* Renders the first `count` messages of a JSON array as the wire has them: keys whose value is null
   are dropped, tool-call arguments that parse to an object are given as that, reasoning is given
   under the names that templates read. variables: an object of special tokens, or none; the
   variable "now" (YYYY-MM-DDTHH:MM:SS), where there, is the clock. The caller frees *text (len
   bytes, not NUL-terminated). May be called by several threads at once. 0, or -1 with r->text: the
   message of raise_exception, or what failed and the line. */
int chat_template_render(const struct chat_template *t, struct json messages, size_t count,
    bool add_generation_prompt, struct json variables, char **text, size_t *len, struct refusal *r);

/* All that a rendering may be given. */
struct chat_render {
	struct json messages, variables; /* as above */
	size_t count;
	bool add_generation_prompt;
	bool text_arguments;  /* tool-call arguments stay as they are */
	struct json context;  /* where there: all variables, instead of the above */
	const struct tm *now; /* the clock, or NULL */
	bool raised;	      /* out: the template's own raise_exception failed it */
};
/* The same with every choice; chat_template_render is this one. */
int chat_template_run(const struct chat_template *t, struct chat_render *in, char **text,
    size_t *len, struct refusal *r);

#endif
