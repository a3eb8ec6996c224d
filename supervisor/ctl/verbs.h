/*
 * stepctl's verbs: one entry each in main.c's table, one file each. A verb gets its arguments after
 * its name and returns the exit code.
 */
#ifndef SUPERVISOR_CTL_VERBS_H
#define SUPERVISOR_CTL_VERBS_H

/* Exit codes, as --help lists them. */
enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1,	     /* the work was done and the answer is no: verification failed, ... */
	CTL_USAGE = 2,	     /* bad arguments or bad input files; nothing was sent */
	CTL_UNREACHABLE = 3, /* no answer: nothing is known about the service's state */
	CTL_REFUSED = 4,     /* the service answered with an error */
	CTL_INTERRUPTED = 130, /* Ctrl-C: train saves first, unless it comes twice */
};

/* Says so on stderr: CTL_FAILED. */
int ctl_out_of_memory(void);

struct ctl_option;

struct ctl_verb {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *about;     /* one line */
	const struct ctl_option *options;
	int (*run)(int argc, char **argv);
	const char *notes; /* more for its --help, whole lines, or NULL */
};

extern const struct ctl_verb ctl_train, ctl_sessions, ctl_verify, ctl_generate, ctl_status;

#endif
