/* Patterns as Oniguruma 6.9 understands them. The matches were recorded with HF tokenizers 0.23. */
#include "tests/unit/test.h"

#include <time.h>

#include "worker/tokenizer/pattern.h"

/* "start-end ..." of the matches, or "refused: ...". */
static const char *
matches(const char *pattern, bool literal, const char *text, size_t len)
{
	static char out[4096];
	struct pattern *p;
	struct refusal r = {0};
	struct pattern_run *run;
	struct pattern_scan scan = {.text = text, .len = len};
	size_t n = 0;
	int rc;

	out[0] = '\0';
	if (pattern_compile(&p, pattern, strlen(pattern), literal, "p", &r) != 0) {
		snprintf(out, sizeof(out), "refused: %s", r.text);
		return out;
	}
	run = pattern_run_new();
	while ((rc = pattern_next(p, run, &scan, &r)) == 1 && n < sizeof(out) - 64)
		n += (size_t)snprintf(
		    out + n, sizeof(out) - n, "%s%zu-%zu", n > 0 ? " " : "", scan.start, scan.end);
	if (rc < 0)
		snprintf(out, sizeof(out), "refused: %s", r.text);
	pattern_run_free(run);
	pattern_free(p);
	return out;
}

#define MATCHES(pattern, text, want)                                                               \
	CHECK_STR(matches(pattern, false, text, sizeof(text) - 1), want)
#define REFUSED(pattern, what)                                                                     \
	CHECK_STR(matches(pattern, false, "a", 1), "refused: p: the pattern has " what)

TEST(space_is_white_space)
{
	MATCHES("\\s+", "a\xc2\x85\xc2\xa0\xe2\x80\xa8z\xe1\xa0\x8e\x1c\xe2\x80\x8b", "1-8");
	MATCHES("\\S", " \xe1\xa0\x8e ", "1-4");
	MATCHES("[^\\S\n]+", " \n\t", "0-1 2-3");
}

TEST(words_differ_inside_and_outside_a_class)
{
	MATCHES("\\w+", "a\xc2\xb2 \xcc\x81_\xe2\x92\xb6", "0-3 4-10");
	MATCHES("[\\w]+", "a\xc2\xb2 \xcc\x81_\xe2\x92\xb6", "0-1 4-10");
	MATCHES("\\b", "ab c", "0-0 2-2 3-3 4-4");
}

TEST(case_folding_is_unicodes)
{
	MATCHES("(?i:'s|'t)", "'s'S'\xc5\xbf'x", "0-2 2-4 4-7");
	MATCHES("(?i)a|b", "AB", "0-1 1-2");
	MATCHES("x(?i)a|b", "xA xb B", "0-2 3-5"); /* the alternatives belong to the option */
}

TEST(repeats_are_rubys)
{
	MATCHES("a{,2}b", "aaab", "1-4");
	MATCHES("a{1,2}+b", "aaab", "0-4"); /* no possessive interval: one or more of it */
	MATCHES("a++a", "aaa", "");
	MATCHES("a{2}", "aaaaa", "0-2 2-4");
	MATCHES("x*", "axb", "0-0 1-2 3-3");
	MATCHES("a{x", "a{x", "0-3");
}

TEST(lines_end_at_newlines)
{
	MATCHES("^.", "ab\ncd", "0-1 3-4");
	MATCHES(".$", "ab\ncd", "1-2 4-5");
	MATCHES(".+", "a\rb\nc", "0-3 4-5");
	MATCHES("(?m:.+)", "a\nb", "0-3");
	MATCHES("\\A.|.\\z", "ab\nc", "0-1 3-4");
	MATCHES("\\h", "g1F", "1-2 2-3");
	MATCHES("\\R?.\\s", "\r\xc2\xa0]b", "0-3");
	MATCHES("\\R", "a\r\nb\v\xe2\x80\xa8", "1-3 4-5 5-8");
}

TEST(classes_nest_and_intersect)
{
	MATCHES("[a-z&&[^aeiou]]+", "abcde", "1-4");
	MATCHES("[^a-z&&[^aeiou]]", "ab1", "0-1 2-3");
	MATCHES("[a[x-z]\\P{L}]+", "axb1", "0-2 3-4");
	MATCHES("[\\p{Han}]|\\p{Lu}",
	    "\xe4\xbb\x8a"
	    "aB",
	    "0-3 4-5");
	MATCHES("[]a]", "a]", "0-1 1-2");
	/* A character that several members take is tried with one of them only. */
	MATCHES("[\\h[\\P{N}[z\\Wa][^b]]]+?!",
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "");
	MATCHES("[[:digit:]\\]-]+", "a1]-", "1-4");
}

TEST(what_has_no_counterpart_is_named)
{
	REFUSED("(a)\\1", "\\1 at byte 3, which is not supported");
	REFUSED("a\\Kb", "\\K at byte 1, which is not supported");
	REFUSED("\\p{Emoji}", "the property emoji at byte 0, which is not supported");
	REFUSED("(?(1)a)", "a group of this kind at byte 2, which is not supported");
	REFUSED("a{2}?", "{n}? at byte 4, which is not supported");
	REFUSED("(a", "a group without end at byte 2, which is not supported");
	REFUSED("a)", "an unmatched ) at byte 1, which is not supported");
	REFUSED("[a", "a class without end at byte 2, which is not supported");
	REFUSED("*a", "a repeat of nothing at byte 0, which is not supported");
	REFUSED("\\", "a lone backslash at byte 0, which is not supported");
	REFUSED("(?i:\xc3\x9f)",
	    "case-insensitive matching of non-ASCII text at byte 6, which is not supported");
}

/* Each must be refused, at compile or match time, and soon. */
TEST(no_pattern_can_hang)
{
	static const char *const patterns[] = {"(a+)+$", "(a|aa)+$", "(?:a*)*[bc]",
	    "(a?){60}a{60}[bc]", "(?:(?:a+)+)+[bc]", "a*a*a*a*a*a*a*a*[bc]"};
	size_t len = 1 << 16;
	char *text = malloc(len);

	memset(text, 'a', len);
	text[len - 1] = '!';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		clock_t start = clock();
		const char *got = matches(patterns[i], false, text, len);
		double took = (double)(clock() - start) / CLOCKS_PER_SEC;

		CHECK_MSG(strstr(got, "takes too long") != NULL, "%s: %.60s", patterns[i], got);
		CHECK_MSG(took < 30, "%s took %.1f s", patterns[i], took);
	}
	free(text);
}

TEST(long_runs_match)
{
	size_t len = 1 << 20;
	char *text = malloc(len);

	memset(text, 'a', len);
	CHECK_STR(matches("'s| ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", false, text, len),
	    "0-1048576");
	memset(text, ' ', len);
	text[len - 1] = 'x';
	CHECK_STR(matches("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", false,
		      text, len),
	    "0-1048574 1048574-1048576");
	free(text);
}

TEST(giant_patterns_are_refused)
{
	char *pattern = malloc(40000);

	memset(pattern, 'a', 39999);
	pattern[39999] = '\0';
	CHECK_STR(matches(pattern, false, "a", 1),
	    "refused: p: the pattern has 39999 bytes, at most 16384 are allowed");
	memset(pattern, '(', 1000);
	pattern[1000] = '\0';
	CHECK(strstr(matches(pattern, false, "a", 1), "too many nested groups") != NULL);
	CHECK(
	    strstr(matches("((a{1000}){1000}){1000}", false, "a", 1), "does not compile") != NULL);
	free(pattern);
}

TEST(literals_are_plain)
{
	CHECK_STR(matches(".*", true, "a.*.*", 5), "1-3 3-5");
	CHECK_STR(matches("", true, "a", 1), "refused: p: the pattern is empty");
}

TEST_MAIN(TEST_CASE(space_is_white_space), TEST_CASE(words_differ_inside_and_outside_a_class),
    TEST_CASE(case_folding_is_unicodes), TEST_CASE(repeats_are_rubys),
    TEST_CASE(lines_end_at_newlines), TEST_CASE(classes_nest_and_intersect),
    TEST_CASE(what_has_no_counterpart_is_named), TEST_CASE(no_pattern_can_hang),
    TEST_CASE(long_runs_match), TEST_CASE(giant_patterns_are_refused),
    TEST_CASE(literals_are_plain))
