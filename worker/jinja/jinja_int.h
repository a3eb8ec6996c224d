/*
 * Python's numbers: integers without bound (here: up to JINJA_DIGITS_MAX digits, Python's own limit
 * for text), floats, and the arithmetic between them. Results are INT where they fit, else BIG.
 */
#ifndef WORKER_JINJA_JINJA_INT_H
#define WORKER_JINJA_JINJA_INT_H

#include "worker/jinja/jinja_value.h"

enum { JINJA_DIGITS_MAX = 4300 };

/* Sign and magnitude, limbs of 32 bits, least significant first, no leading zero limb. */
struct jinja_big {
	bool negative;
	uint32_t count;
	uint32_t limbs[];
};

/* Digits of a base from 2 to 36, without sign, prefix or underscores. false: not of that form. */
bool jinja_int_parse(struct jinja *j, const char *digits, size_t len, unsigned base, bool negative,
    struct jinja_value *out);
/* op is one of + - * / (floor division) and %; zero divisors fail. Both are integers. */
struct jinja_value jinja_int_binary(
    struct jinja *j, char op, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_int_negate(struct jinja *j, struct jinja_value v);
/* a ** b with b >= 0. */
struct jinja_value jinja_int_power(struct jinja *j, struct jinja_value a, struct jinja_value b);
/* Puts out the digits in base 10 (or 2, 8, 16). */
void jinja_int_put(struct jinja *j, struct jinja_value v, unsigned base);
size_t jinja_int_bits(struct jinja_value v);
/* Truncates; fails on infinity and NaN. */
struct jinja_value jinja_int_from_double(struct jinja *j, double v);
/* Of any number; integers too large become infinity. */
double jinja_number_double(struct jinja_value v);
/* -1, 0, 1, or 2 where a NaN has no order. */
int jinja_number_compare(struct jinja_value a, struct jinja_value b);

#endif
