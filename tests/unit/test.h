/*
 * The unit tests' harness. A test file is one program:
 *
 *	TEST(name) { CHECK(1 + 1 == 2); CHECK_MSG(x == y, "x %d", x); }
 *	TEST_MAIN(TEST_CASE(name), TEST_CASE(other_name))
 *
 * Prints a line for each failed check, then `N passed, N failed`, which tests/run.sh adds up.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_failed_checks; /* in the running test */

#define TEST(name) static void test_##name(void)

#define CHECK_MSG(condition, ...)                                                                  \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			test_failed_checks++;                                                      \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                     \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
		}                                                                                  \
	} while (0)
#define CHECK(condition) CHECK_MSG(condition, "is false")
#define CHECK_STR(got, want)                                                                       \
	CHECK_MSG(strcmp((got), (want)) == 0, "\"%s\", want \"%s\"", (got), (want))

struct test_case {
	const char *name;
	void (*run)(void);
};

/* Runs all, or only those named on the command line. */
static inline int
test_main(const struct test_case *cases, int argc, char **argv)
{
	int passed = 0, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (const struct test_case *c = cases; c->name != NULL; c++) {
		int wanted = argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], c->name) == 0;
		if (!wanted)
			continue;
		test_failed_checks = 0;
		c->run();
		if (test_failed_checks != 0)
			printf("failed: %s\n", c->name);
		*(test_failed_checks != 0 ? &failed : &passed) += 1;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}

#define TEST_CASE(name)                                                                            \
	{                                                                                          \
#name, test_##name                                                                 \
	}
#define TEST_MAIN(...)                                                                             \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct test_case cases[] = {__VA_ARGS__, {NULL, NULL}};               \
		return test_main(cases, argc, argv);                                               \
	}

#endif
