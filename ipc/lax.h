/*
 * Values as Pydantic's lax mode takes them: integers from floats without fraction and from strings,
 * numbers from strings. A bool is no number here (contract.md), which is the one difference.
 */
#ifndef IPC_LAX_H
#define IPC_LAX_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"

enum lax {
	LAX_OK,
	LAX_TYPE,     /* not a kind of value that is converted */
	LAX_PARSE,    /* a string that is no number */
	LAX_SIZE,     /* an integer out of a float or string beyond what is read */
	LAX_FRACTION, /* a float with a fraction where an integer is wanted */
	LAX_NONFINITE,
};

enum { LAX_DIGITS_MAX = 4300 }; /* of an integer in a string, as Python has it */

/* An integer; one that does not fit is INT64_MIN or INT64_MAX, so that bounds still judge it. */
enum lax lax_integer(struct json v, int64_t *out);
/* A number, which may be infinite or NaN where a string says so (or a literal overflows). */
enum lax lax_number(struct json v, double *out);

#endif
