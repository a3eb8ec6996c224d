/* GET /v1/operations/{id}?wait=seconds */
#include <stdlib.h>
#include <string.h>

#include "ipc/fault.h"
#include "supervisor/api/operations.h"

static const struct place place_query = {.key = "query", .key_len = 5};
static const struct place place_wait = {.up = &place_query, .key = "wait", .key_len = 4};

/* Seconds, or a fault. */
static double
read_wait(const char *text, struct faults *f)
{
	size_t whole = strspn(text, "0123456789"), len = whole;
	double seconds;

	if (text[whole] == '.')
		len += 1 + strspn(text + whole + 1, "0123456789");
	if (whole == 0 || whole > 9 || text[len] != '\0') {
		if (text[0] == '-' && text[1 + strspn(text + 1, "0123456789.")] == '\0' &&
		    text[1] != '\0')
			faults_add(f, &place_wait, "greater_than_equal",
			    "Input should be greater than or equal to 0");
		else
			faults_add(f, &place_wait, "float_parsing",
			    "Input should be a valid number, unable to parse string as a number");
		return 0;
	}
	seconds = strtod(text, NULL);
	if (seconds > OPERATION_WAIT_MAX)
		faults_add(f, &place_wait, "less_than_equal",
		    "Input should be less than or equal to %d", OPERATION_WAIT_MAX);
	return seconds;
}

void
api_operation_get(struct stepd *s, struct http_request *r)
{
	struct operation *o = operations_find(s, http_param(r));
	const char *wait = http_query(r, "wait");
	double seconds = 0;
	struct faults f;

	faults_init(&f);
	if (wait != NULL)
		seconds = read_wait(wait, &f);
	if (faults_any(&f))
		http_reply_faults(r, &f);
	else if (o == NULL || !o->accepted)
		http_reply_detail(r, 404, "operation not found");
	else if (o->done)
		operation_reply_answer(o, r);
	else if (seconds > 0 && !s->stopping)
		operation_wait(o, r, seconds);
	else
		operation_reply_accepted(o, r);
	faults_fini(&f);
}
