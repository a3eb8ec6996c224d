/*
 * stepctl generate: a few greedy tokens, with the adapter and without, so that one can look.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/options.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/remote.h"
#include "supervisor/ctl/service.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_option options[] = {
    {"prompt", "TEXT", NULL, "what the user says"},
    {"adapter", "on|off|both", "both", "with the adapter, without it, or one after the other"},
    {"tokens", "N", "64", "how many at most"},
    {"session", "ID", NULL, "an open session of the service"},
    {"model", "NAME|PATH", NULL, "without --session: base model"},
    {"state", "FILE", NULL, "without --session: the state file of a run"},
    {"rank", "N", "8", "without --session: rank of the state"},
    {"seed", "N", "0", "without --session: seed of the state"},
    CTL_SERVICE_OPTIONS,
    {"json", NULL, NULL, "print the service's answers, one a line"},
    {NULL, NULL, NULL, NULL},
};

struct look {
	struct ctl_arguments arguments;
	struct remote remote;
	struct service service;
	uint64_t tokens;
	bool opened; /* the session is ours to close */
};

static volatile sig_atomic_t stop_asked;

static void
on_stop(int number)
{
	(void)number;
	stop_asked = 1;
	if (!service_kill())
		_exit(CTL_INTERRUPTED);
}

/* One continuation. */
static int
ask(struct look *look, bool adapter)
{
	struct json_writer w;
	struct reply reply;
	char path[256];
	const char *body;
	int rc;

	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "messages");
	json_write_array(&w);
	json_write_object(&w);
	json_put_string(&w, "role", "user");
	json_put_string(&w, "content", ctl_value(&look->arguments, "prompt"));
	json_write_object_end(&w);
	json_write_array_end(&w);
	json_put_uint(&w, "max_new_tokens", look->tokens);
	json_put_bool(&w, "adapter", adapter);
	json_write_object_end(&w);
	snprintf(path, sizeof(path), "/v1/sessions/%s/samples:generate", look->remote.id);
	body = json_writer_text(&w, NULL);
	rc = body == NULL
		 ? ctl_out_of_memory()
		 : client_expect(look->remote.client, "generating", "POST", path, body, &reply);
	json_writer_fini(&w);
	if (rc != 0)
		return rc;
	if (ctl_switch(&look->arguments, "json")) {
		json_writer_init(&w);
		json_write_value(&w, reply_json(&reply));
		rc = print_json(&w);
	} else {
		const char *text = json_string(json_get(reply_json(&reply), "text"), NULL);

		printf("adapter %s:\n", adapter ? "on" : "off");
		print_lines(stdout, text == NULL ? "" : text);
		fputs("\n\n", stdout);
	}
	reply_fini(&reply);
	return rc;
}

static int
open_session(struct look *look)
{
	const struct ctl_arguments *a = &look->arguments;
	struct remote_options o = {.model = ctl_value(a, "model"), .resume = ctl_value(a, "state")};
	const char *session = ctl_value(a, "session"), *tmp = getenv("TMPDIR");

	if (session != NULL || ctl_value(a, "url") != NULL || getenv("STEPD_URL") != NULL) {
		look->remote.client = client_from_options(a);
		if (look->remote.client == NULL)
			return CTL_USAGE;
	} else {
		look->remote.client =
		    service_start(&look->service, o.model, tmp != NULL ? tmp : "/tmp", NULL);
		if (look->remote.client == NULL)
			return look->service.failure;
		o.model = look->service.model;
	}
	if (session != NULL) {
		snprintf(look->remote.id, sizeof(look->remote.id), "%s", session);
		return 0;
	}
	if (ctl_uint(a, "rank", 1, 4096, &o.rank) != 0 ||
	    ctl_uint(a, "seed", 0, UINT32_MAX, &o.seed) != 0)
		return CTL_USAGE;
	look->opened = true;
	return remote_open(&look->remote, &o);
}

static int
read_arguments(struct look *look, int argc, char **argv)
{
	const struct ctl_arguments *a = &look->arguments;
	const char *adapter;

	if (ctl_parse(&look->arguments, options, argc, argv) != 0)
		return -1;
	adapter = ctl_value(a, "adapter");
	if (ctl_value(a, "prompt") == NULL ||
	    (ctl_value(a, "session") == NULL && ctl_value(a, "model") == NULL)) {
		fputs("stepctl: generate needs --prompt and --session or --model\n", stderr);
		return -1;
	}
	if (strcmp(adapter, "on") != 0 && strcmp(adapter, "off") != 0 &&
	    strcmp(adapter, "both") != 0) {
		fprintf(stderr, "stepctl: --adapter is %s: give on, off or both\n", adapter);
		return -1;
	}
	return ctl_uint(a, "tokens", 1, 4096, &look->tokens);
}

static int
generate_run(int argc, char **argv)
{
	static struct look look;
	const char *adapter;
	int rc;

	if (read_arguments(&look, argc, argv) != 0)
		return CTL_USAGE;
	adapter = ctl_value(&look.arguments, "adapter");
	service_signals(on_stop);
	rc = open_session(&look);
	if (rc == 0 && strcmp(adapter, "on") != 0)
		rc = ask(&look, false);
	if (rc == 0 && strcmp(adapter, "off") != 0)
		rc = ask(&look, true);
	if (look.opened && rc != CTL_UNREACHABLE && look.remote.client != NULL)
		remote_close(&look.remote, true);
	client_free(look.remote.client);
	service_stop(&look.service);
	return stop_asked ? CTL_INTERRUPTED : rc;
}

const struct ctl_verb ctl_generate = {"generate",
    "--prompt TEXT (--session ID | --model NAME|PATH [--state FILE]) [options]",
    "continues a text, adapter on and off", options, generate_run, NULL};
