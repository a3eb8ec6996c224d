#include "worker/tokenizer/pattern.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "worker/text/bytes.h"
#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/pattern_translate.h"

enum {
	MAX_SOURCE = 1 << 14, /* bytes of a pattern as written */
	MAX_SECONDS = 20,     /* for all searches of one text */
	CLOCK_EVERY = 16,     /* searches between two looks at the clock */
	MAX_STEPS = 200000,   /* of one attempt to match, and 8 more for each byte of text */
	MAX_STARTS = 64,      /* attempts in one search: limits are checked between searches */
	HEAP_KIB = 64 << 10,  /* of PCRE2's interpreter */
	JIT_STACK_MIN = 32 << 10,
	JIT_STACK_MAX = 8 << 20,
};

struct pattern {
	pcre2_code *code; /* NULL: a literal */
	bool jit;
	char *literal;
	size_t literal_len;
	char *where;
};

struct pattern_run {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
	time_t deadline;
	unsigned searches;
};

static time_t
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static int
compile(struct pattern *p, const struct bytes *translated, struct refusal *r)
{
	const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE |
				 PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT |
				 PCRE2_NO_UTF_CHECK;
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR message[120] = "";
	PCRE2_SIZE offset;
	int error;

	if (context == NULL)
		return refuse_memory(r);
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	p->code = pcre2_compile(
	    (PCRE2_SPTR)translated->data, translated->len, options, &error, &offset, context);
	pcre2_compile_context_free(context);
	if (p->code == NULL) {
		pcre2_get_error_message(error, message, sizeof(message));
		return refuse(r, 422, "%s: the pattern does not compile: %s", p->where,
		    (const char *)message);
	}
	/* Where no memory may be executable this fails, and the interpreter serves. */
	p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
	return 0;
}

int
pattern_compile(struct pattern **out, const char *source, size_t len, bool literal,
    const char *where, struct refusal *r)
{
	struct pattern *p;
	struct bytes translated = {0};
	int rc = 0;

	*out = NULL;
	if (len > MAX_SOURCE)
		return refuse(r, 422, "%s: the pattern has %zu bytes, at most %d are allowed",
		    where, len, (int)MAX_SOURCE);
	if (literal && len == 0)
		return refuse(r, 422, "%s: the pattern is empty", where);
	p = calloc(1, sizeof(*p));
	if (p == NULL || (p->where = strdup(where)) == NULL) {
		free(p);
		return refuse_memory(r);
	}
	if (literal) {
		p->literal = malloc(len);
		p->literal_len = len;
		if (p->literal != NULL)
			memcpy(p->literal, source, len);
		else
			rc = refuse_memory(r);
	} else {
		bytes_put_text(&translated, ""); /* an empty pattern has a place too */
		bytes_reserve(&translated, 1);
		rc = pattern_translate(&translated, source, len, where, r);
		if (rc == 0)
			rc = compile(p, &translated, r);
		bytes_fini(&translated);
	}
	if (rc != 0) {
		pattern_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

void
pattern_free(struct pattern *p)
{
	if (p == NULL)
		return;
	pcre2_code_free(p->code);
	free(p->literal);
	free(p->where);
	free(p);
}

struct pattern_run *
pattern_run_new(void)
{
	struct pattern_run *run = calloc(1, sizeof(*run));

	if (run == NULL)
		return NULL;
	run->data = pcre2_match_data_create(1, NULL);
	run->context = pcre2_match_context_create(NULL);
	run->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
	if (run->data == NULL || run->context == NULL) {
		pattern_run_free(run);
		return NULL;
	}
	pcre2_set_heap_limit(run->context, HEAP_KIB);
	if (run->stack != NULL)
		pcre2_jit_stack_assign(run->context, NULL, run->stack);
	run->deadline = seconds() + MAX_SECONDS;
	return run;
}

void
pattern_run_free(struct pattern_run *run)
{
	if (run == NULL)
		return;
	pcre2_match_data_free(run->data);
	pcre2_match_context_free(run->context);
	pcre2_jit_stack_free(run->stack);
	free(run);
}

static bool
next_literal(const struct pattern *p, struct pattern_scan *scan)
{
	const char *found =
	    memmem(scan->text + scan->at, scan->len - scan->at, p->literal, p->literal_len);

	if (found == NULL)
		return false;
	scan->start = (size_t)(found - scan->text);
	scan->end = scan->start + p->literal_len;
	return true;
}

static int
too_long(const struct pattern *p, struct refusal *r)
{
	return refuse(
	    r, 422, "%s: the pattern takes too long, or too much memory, on this text", p->where);
}

/* One match from scan->at on: 1, 0 or -1. A search tries few starts at a time, so that the clock is
   seen however the pattern behaves. */
static int
search(
    const struct pattern *p, struct pattern_run *run, struct pattern_scan *scan, struct refusal *r)
{
	size_t from = scan->at;
	int rc;

	pcre2_set_match_limit(run->context, (uint32_t)(MAX_STEPS + scan->len * 8));
	for (;;) {
		PCRE2_SPTR text = (PCRE2_SPTR)scan->text;

		if (++run->searches % CLOCK_EVERY == 0 && seconds() >= run->deadline)
			return too_long(p, r);
		pcre2_set_offset_limit(run->context, from + MAX_STARTS);
		rc = p->jit ? pcre2_jit_match(
				  p->code, text, scan->len, from, 0, run->data, run->context)
			    : pcre2_match(p->code, text, scan->len, from, PCRE2_NO_UTF_CHECK,
				  run->data, run->context);
		if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
			rc = pcre2_match(p->code, text, scan->len, from,
			    PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, run->data, run->context);
		if (rc != PCRE2_ERROR_NOMATCH)
			break;
		if (scan->len - from <= MAX_STARTS)
			return 0;
		/* The last start that was tried is tried again: it need not be a character's. */
		from += MAX_STARTS;
		while (((unsigned char)scan->text[from] & 0xc0) == 0x80)
			from--;
	}
	if (rc < 0)
		return too_long(p, r);
	scan->start = pcre2_get_ovector_pointer(run->data)[0];
	scan->end = pcre2_get_ovector_pointer(run->data)[1];
	return 1;
}

int
pattern_next(
    const struct pattern *p, struct pattern_run *run, struct pattern_scan *scan, struct refusal *r)
{
	size_t n;
	int rc;

	while (scan->at <= scan->len) {
		if (p->code == NULL)
			return next_literal(p, scan) ? (scan->at = scan->end, 1) : 0;
		rc = search(p, run, scan, r);
		if (rc <= 0)
			return rc;
		if (scan->start != scan->end || scan->last_end != scan->end + 1) {
			scan->at = scan->end;
			scan->last_end = scan->end + 1;
			return 1;
		}
		n = 1;
		if (scan->at < scan->len)
			char_at(scan->text + scan->at, &n);
		scan->at += n;
	}
	return 0;
}
