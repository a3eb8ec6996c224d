/*
 * Options of the verbs: `--name value`, `--name=value`, or `--name` alone; the table that parses
 * them also prints the help. Everything else is an operand, in order.
 */
#ifndef SUPERVISOR_CTL_OPTIONS_H
#define SUPERVISOR_CTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_option {
	const char *name;     /* without the dashes; NULL ends the table */
	const char *value;    /* what the value is called in the help; NULL: a switch */
	const char *standard; /* default, or NULL */
	const char *help;
};

/* The options that every verb which talks to a service has. */
#define CTL_SERVICE_OPTIONS                                                                        \
	{"url", "URL", NULL, "the service (else $STEPD_URL)"},                                     \
	    {"token-file", "FILE", NULL, "file with the token (else $TRAINER_TOKEN)"},             \
	{                                                                                          \
		"ca", "FILE", NULL, "certificate (PEM) to trust (else the system's)"               \
	}

enum { CTL_MAX_OPTIONS = 32, CTL_MAX_OPERANDS = 64 };

struct ctl_arguments {
	const struct ctl_option *table;
	const char *values[CTL_MAX_OPTIONS]; /* by place in the table; a switch that is on: "" */
	const char *operands[CTL_MAX_OPERANDS];
	int operand_count;
};

/* 0, or -1 after a line on stderr that names what is wrong. Views of argv. */
int ctl_parse(struct ctl_arguments *a, const struct ctl_option *table, int argc, char **argv);
/* The value of an option, its default, or NULL. */
const char *ctl_value(const struct ctl_arguments *a, const char *name);
bool ctl_switch(const struct ctl_arguments *a, const char *name);
/* Numbers within bounds: 0 with *out, or -1 after a line on stderr that names the option. */
int ctl_uint(
    const struct ctl_arguments *a, const char *name, uint64_t low, uint64_t high, uint64_t *out);
int ctl_positive(const struct ctl_arguments *a, const char *name, double *out);
/* The option lines of a help text. */
void ctl_print_options(FILE *to, const struct ctl_option *table);

#endif
