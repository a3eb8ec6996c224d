#include "worker/text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "worker/jinja/jinja_call.h"
#include "worker/jinja/jinja_data.h"
#include "worker/jinja/jinja_builtin.h"
#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_parser.h"
#include "worker/jinja/jinja_scope.h"

struct chat_template {
	struct jinja arena; /* owns everything below */
	const struct jinja_function *root;
};

/* The message of a failure that is not the template's own says where it happened. */
static int
refuse_failure(const struct jinja *j, struct refusal *r)
{
	if (j->error == JINJA_RAISED)
		return refuse(r, 422, "%s", j->message);
	if (j->error == JINJA_SYNTAX)
		return refuse(r, 422, "line %u: %s", j->line, j->message);
	if (j->line == 0)
		return refuse(r, 422, "%s", j->message);
	return refuse(r, 422, "%s (line %u)", j->message, j->line);
}

int
chat_template_compile(struct chat_template **out, const char *source, size_t len, struct refusal *r)
{
	struct chat_template *t = calloc(1, sizeof(*t));
	struct jinja_tokens tokens;
	struct jinja_nodes body;

	*out = NULL;
	if (t == NULL)
		return refuse(r, 503, "out of memory");
	jinja_init(&t->arena);
	t->arena.line = 1;
	if (setjmp(t->arena.failed) != 0) {
		refuse_failure(&t->arena, r);
		chat_template_free(t);
		return -1;
	}
	jinja_lex(&t->arena, source, len, &tokens);
	jinja_parse(&t->arena, &tokens, &body);
	t->root = jinja_scope_resolve(&t->arena, body);
	*out = t;
	return 0;
}

void
chat_template_free(struct chat_template *t)
{
	if (t == NULL)
		return;
	jinja_fini(&t->arena);
	free(t);
}

static void
set_clock(struct jinja *j, const struct chat_render *in)
{
	struct timeval now;
	struct json text = json_get(in->variables, "now");
	int year, month, day, hour, minute, second;
	time_t seconds;

	if (in->now != NULL) {
		j->now = *in->now;
		return;
	}
	if (json_is(text, JSON_STRING) && sscanf(json_string(text, NULL), "%d-%d-%dT%d:%d:%d",
					      &year, &month, &day, &hour, &minute, &second) == 6) {
		j->now = (struct tm){.tm_year = year - 1900,
		    .tm_mon = month - 1,
		    .tm_mday = day,
		    .tm_hour = hour,
		    .tm_min = minute,
		    .tm_sec = second};
		timegm(&j->now); /* fills in the days of week and year */
		return;
	}
	gettimeofday(&now, NULL);
	seconds = now.tv_sec;
	localtime_r(&seconds, &j->now);
	j->now_microsecond = (unsigned)now.tv_usec;
}

static void
fill_context(struct jinja *j, const struct chat_render *in)
{
	struct jinja_dict *context = jinja_dict_new(j, 24);

	jinja_globals_add(j, context);
	if (json_exists(in->context)) {
		jinja_dict_from_json(j, context, in->context, false);
	} else {
		jinja_dict_set_text(j, context, "tools", jinja_none());
		jinja_dict_set_text(j, context, "documents", jinja_none());
		jinja_dict_from_json(j, context, in->variables, true);
		jinja_dict_set_text(j, context, "messages",
		    jinja_messages(j, in->messages, in->count, !in->text_arguments));
		jinja_dict_set_text(
		    j, context, "add_generation_prompt", jinja_bool(in->add_generation_prompt));
	}
	j->context = context;
}

/* A function of its own, so that nothing it has in registers outlives the longjmp. */
static int
run(const struct chat_template *t, const struct chat_render *in, struct jinja *j)
{
	struct jinja_frame *f;

	if (setjmp(j->failed) != 0)
		return -1;
	set_clock(j, in);
	fill_context(j, in);
	f = jinja_frame_new(j, t->root, NULL);
	jinja_scope_enter(j, f, &t->root->scope);
	jinja_run(j, f, &t->root->body);
	jinja_put(j, "", 1); /* so that there is something to hand over */
	return 0;
}

int
chat_template_run(const struct chat_template *t, struct chat_render *in, char **text, size_t *len,
    struct refusal *r)
{
	struct jinja j;
	int rc;

	*text = NULL;
	*len = 0;
	jinja_init(&j);
	rc = run(t, in, &j);
	in->raised = rc < 0 && j.error == JINJA_RAISED;
	if (rc < 0) {
		refuse_failure(&j, r);
	} else {
		*len = j.out_len - 1;
		*text = j.out;
		j.out = NULL;
	}
	jinja_fini(&j);
	return rc;
}

int
chat_template_render(const struct chat_template *t, struct json messages, size_t count,
    bool add_generation_prompt, struct json variables, char **text, size_t *len, struct refusal *r)
{
	struct chat_render in = {.messages = messages,
	    .variables = variables,
	    .count = count,
	    .add_generation_prompt = add_generation_prompt};

	return chat_template_run(t, &in, text, len, r);
}
