/*
 * stepctl: stepd's command for people. Each verb is a file; this is their table.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "supervisor/ctl/options.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_verb *const verbs[] = {
    &ctl_train,
    &ctl_sessions,
    &ctl_status,
    &ctl_generate,
    &ctl_verify,
};

enum { VERBS = sizeof(verbs) / sizeof(*verbs) };

static void
print_help(FILE *to)
{
	fputs("stepctl trains LoRA adapters with stepd and looks after it.\n\nverbs:\n", to);
	for (int i = 0; i < VERBS; i++)
		fprintf(to, "  %-10s %s\n", verbs[i]->name, verbs[i]->about);
	fputs("\n`stepctl VERB --help` tells a verb's options. `stepctl --version` the version.\n\n"
	      "exit codes:\n"
	      "  0    done\n"
	      "  1    the answer is no: a verification failed, a file could not be written,\n"
	      "       status found something that somebody has to act on\n"
	      "  2    bad arguments or bad input; nothing was sent\n"
	      "  3    the service did not answer: nothing is known about it\n"
	      "  4    the service answered with an error\n"
	      "  130  stopped by Ctrl-C; train saves first, unless it comes twice\n",
	    to);
}

static void
print_verb_help(const struct ctl_verb *v)
{
	printf("usage: stepctl %s %s\n\n%s\n\noptions:\n", v->name, v->arguments, v->about);
	ctl_print_options(stdout, v->options);
	if (v->notes != NULL)
		printf("\n%s", v->notes);
}

static int
run_verb(const struct ctl_verb *v, int argc, char **argv)
{
	int code;

	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			print_verb_help(v);
			return CTL_OK;
		}
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	code = v->run(argc, argv);
	curl_global_cleanup();
	/* A reader that has gone wants no more; a disk that is full has lost what was to be kept.
	 */
	if (code == CTL_OK && (fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE) {
		fprintf(stderr, "stepctl: standard output: %s\n", strerror(errno));
		code = CTL_FAILED;
	}
	return code;
}

int
main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return CTL_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return CTL_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("stepctl " STEPD_VERSION);
		return CTL_OK;
	}
	for (int i = 0; i < VERBS; i++)
		if (strcmp(argv[1], verbs[i]->name) == 0)
			return run_verb(verbs[i], argc - 2, argv + 2);
	fprintf(stderr, "stepctl: no verb %s; `stepctl --help` lists them\n", argv[1]);
	return CTL_USAGE;
}
