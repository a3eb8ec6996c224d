/*
 * stepctl sessions: what the service holds.
 */
#include <stdio.h>
#include <string.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/client.h"
#include "supervisor/ctl/options.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_option options[] = {
    CTL_SERVICE_OPTIONS,
    {"json", NULL, NULL, "print the service's answer"},
    {NULL, NULL, NULL, NULL},
};

static const char *
text_of(struct json object, const char *key, const char *otherwise)
{
	const char *text = json_string(json_get(object, key), NULL);

	return text != NULL ? text : otherwise;
}

static void
print_session(struct json s)
{
	char line[2048];

	snprintf(line, sizeof(line), "%-36s %-13s %-6s step %lld, %lld unsaved  %s",
	    text_of(s, "session_id", "?"), text_of(s, "state", "?"), text_of(s, "device", "-"),
	    number_of(s, "step"), number_of(s, "unsaved_steps"), text_of(s, "model", "?"));
	print_text(stdout, line);
	putchar('\n');
}

static int
sessions_run(int argc, char **argv)
{
	struct ctl_arguments a;
	struct client *c;
	struct reply r;
	int rc;

	if (ctl_parse(&a, options, argc, argv) != 0)
		return CTL_USAGE;
	c = client_from_options(&a);
	if (c == NULL)
		return CTL_USAGE;
	rc = client_expect(c, "listing sessions", "GET", "/v1/sessions", NULL, &r);
	client_free(c);
	if (rc != 0)
		return rc;
	if (!json_is(json_get(reply_json(&r), "sessions"), JSON_ARRAY)) {
		fputs("stepctl: listing sessions: the answer has no list of sessions\n", stderr);
		rc = CTL_REFUSED;
	} else if (ctl_switch(&a, "json")) {
		struct json_writer w;

		json_writer_init(&w);
		json_write_value(&w, reply_json(&r));
		rc = print_json(&w);
	} else {
		struct json list = json_get(reply_json(&r), "sessions");

		json_foreach (session, list)
			print_session(session);
		if (json_count(list) == 0)
			puts("no sessions");
	}
	reply_fini(&r);
	return rc;
}

const struct ctl_verb ctl_sessions = {
    "sessions", "[options]", "lists the service's sessions", options, sessions_run, NULL};
