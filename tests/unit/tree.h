/*
 * A folder of a test's own, with files by their paths below it: a made-up /proc and /sys, models, a
 * program. tree_test_main makes it and removes it.
 */
#ifndef TESTS_UNIT_TREE_H
#define TESTS_UNIT_TREE_H

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

static char tree_root[] = "/tmp/stepd-test-XXXXXX";

/* Writes a file below the root, and makes the folders on the way. */
static inline void
tree_write(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", tree_root, path);
	for (char *p = full + strlen(tree_root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		mkdir(full, 0700);
	}
	file = fopen(full, "w");
	if (file == NULL || fputs(text, file) < 0)
		abort();
	fclose(file);
}

/* As test_main, in a new tree; set_up (may be NULL) is called once there is one. */
static inline int
tree_test_main(const struct test_case *cases, void (*set_up)(void), int argc, char **argv)
{
	char command[64];
	int rc;

	if (mkdtemp(tree_root) == NULL)
		abort();
	if (set_up != NULL)
		set_up();
	rc = test_main(cases, argc, argv);
	snprintf(command, sizeof(command), "rm -rf %s", tree_root);
	return system(command) != 0 ? 1 : rc;
}

#endif
