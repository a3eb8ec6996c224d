#include "supervisor/ctl/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/ctl/verbs.h"

static int
find(const struct ctl_option *table, const char *name, size_t len)
{
	for (int i = 0; table[i].name != NULL; i++)
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return i;
	return -1;
}

/* Takes the option at argv[*at], which starts with two dashes. */
static int
parse_option(struct ctl_arguments *a, int argc, char **argv, int *at)
{
	const char *name = argv[*at] + 2, *equals = strchr(name, '=');
	size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
	int i = find(a->table, name, len);

	if (i < 0) {
		fprintf(stderr, "stepctl: no option --%.*s\n", (int)len, name);
		return -1;
	}
	if (a->table[i].value == NULL) {
		if (equals != NULL) {
			fprintf(stderr, "stepctl: --%s takes no value\n", a->table[i].name);
			return -1;
		}
		a->values[i] = "";
		return 0;
	}
	if (equals == NULL && *at + 1 >= argc) {
		fprintf(stderr, "stepctl: --%s needs a value: %s\n", a->table[i].name,
		    a->table[i].value);
		return -1;
	}
	a->values[i] = equals != NULL ? equals + 1 : argv[++*at];
	return 0;
}

int
ctl_parse(struct ctl_arguments *a, const struct ctl_option *table, int argc, char **argv)
{
	bool operands_only = false;

	*a = (struct ctl_arguments){.table = table};
	for (int i = 0; i < argc; i++) {
		if (!operands_only && strcmp(argv[i], "--") == 0) {
			operands_only = true;
		} else if (!operands_only && strncmp(argv[i], "--", 2) == 0) {
			if (parse_option(a, argc, argv, &i) != 0)
				return -1;
		} else if (a->operand_count == CTL_MAX_OPERANDS) {
			fprintf(stderr, "stepctl: more than %d arguments\n", CTL_MAX_OPERANDS);
			return -1;
		} else {
			a->operands[a->operand_count++] = argv[i];
		}
	}
	return 0;
}

const char *
ctl_value(const struct ctl_arguments *a, const char *name)
{
	int i = find(a->table, name, strlen(name));

	if (i < 0)
		return NULL;
	return a->values[i] != NULL ? a->values[i] : a->table[i].standard;
}

bool
ctl_switch(const struct ctl_arguments *a, const char *name)
{
	return ctl_value(a, name) != NULL;
}

int
ctl_uint(
    const struct ctl_arguments *a, const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
	const char *text = ctl_value(a, name);
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || v < low || v > high) {
		fprintf(stderr, "stepctl: --%s is %s: give a whole number from %llu to %llu\n",
		    name, text, (unsigned long long)low, (unsigned long long)high);
		return -1;
	}
	*out = v;
	return 0;
}

int
ctl_positive(const struct ctl_arguments *a, const char *name, double *out)
{
	const char *text = ctl_value(a, name);
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end != '\0' || !isfinite(v) || v <= 0) {
		fprintf(stderr, "stepctl: --%s is %s: give a number above 0\n", name, text);
		return -1;
	}
	*out = v;
	return 0;
}

void
ctl_print_options(FILE *to, const struct ctl_option *table)
{
	for (; table->name != NULL; table++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", table->name,
		    table->value != NULL ? " " : "", table->value != NULL ? table->value : "");
		fprintf(to, "  %-24s %s", left, table->help);
		if (table->standard != NULL)
			fprintf(to, " [%s]", table->standard);
		fputc('\n', to);
	}
}

int
ctl_out_of_memory(void)
{
	fputs("stepctl: out of memory\n", stderr);
	return CTL_FAILED;
}
