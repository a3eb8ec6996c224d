#include "worker/jinja/jinja_int.h"

#include <math.h>
#include <string.h>

enum { LIMBS_MAX = 450 }; /* 2^32 to the 450th has 4335 digits */

/* Both forms as sign and limbs; `room` holds those of a small one. */
struct view {
	bool negative;
	uint32_t count;
	const uint32_t *limbs;
	uint32_t room[2];
};

static void
view(struct view *w, struct jinja_value v)
{
	uint64_t magnitude;

	if (v.type == JINJA_BIG) {
		*w = (struct view){v.big->negative, v.big->count, v.big->limbs, {0}};
		return;
	}
	w->negative = v.type == JINJA_INT && v.integer < 0;
	if (v.type == JINJA_BOOL)
		magnitude = v.boolean;
	else
		magnitude = w->negative ? 0 - (uint64_t)v.integer : (uint64_t)v.integer;
	w->room[0] = (uint32_t)magnitude;
	w->room[1] = (uint32_t)(magnitude >> 32);
	w->count = w->room[1] != 0 ? 2 : w->room[0] != 0;
	w->limbs = w->room;
}

static struct jinja_big *
big_new(struct jinja *j, size_t limbs)
{
	struct jinja_big *b;

	if (limbs > LIMBS_MAX)
		jinja_fail(j, JINJA_LIMIT, "an integer of more than %d digits", JINJA_DIGITS_MAX);
	b = jinja_alloc(j, sizeof(*b) + limbs * sizeof(uint32_t));
	b->count = (uint32_t)limbs;
	return b;
}

static struct jinja_value
normal(struct jinja_big *b)
{
	uint64_t magnitude;

	while (b->count > 0 && b->limbs[b->count - 1] == 0)
		b->count--;
	if (b->count > 2)
		return JINJA_VALUE(BIG, big, b);
	magnitude = b->count == 0 ? 0 : b->limbs[0];
	if (b->count == 2)
		magnitude |= (uint64_t)b->limbs[1] << 32;
	if (!b->negative && magnitude <= INT64_MAX)
		return jinja_int((int64_t)magnitude);
	if (b->negative && magnitude <= (uint64_t)INT64_MAX + 1)
		return jinja_int((int64_t)(0 - magnitude));
	return JINJA_VALUE(BIG, big, b);
}

static int
compare_magnitude(const struct view *a, const struct view *b)
{
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	for (uint32_t i = a->count; i-- > 0;)
		if (a->limbs[i] != b->limbs[i])
			return a->limbs[i] < b->limbs[i] ? -1 : 1;
	return 0;
}

/* |a| + |b|, or |a| - |b| where |a| >= |b|. */
static struct jinja_big *
add_magnitude(struct jinja *j, const struct view *a, const struct view *b, bool subtract)
{
	uint32_t count = (a->count > b->count ? a->count : b->count) + 1;
	struct jinja_big *sum = big_new(j, count);
	int64_t carry = 0;

	for (uint32_t i = 0; i < count; i++) {
		int64_t x = i < a->count ? a->limbs[i] : 0;
		int64_t y = i < b->count ? b->limbs[i] : 0;
		int64_t s = x + (subtract ? -y : y) + carry;

		sum->limbs[i] = (uint32_t)s;
		carry = s >> 32;
	}
	return sum;
}

static struct jinja_value
add(struct jinja *j, const struct view *a, const struct view *b, bool flip)
{
	bool b_negative = b->negative != flip;
	struct jinja_big *sum;

	if (a->negative == b_negative) {
		sum = add_magnitude(j, a, b, false);
		sum->negative = a->negative;
	} else if (compare_magnitude(a, b) >= 0) {
		sum = add_magnitude(j, a, b, true);
		sum->negative = a->negative;
	} else {
		sum = add_magnitude(j, b, a, true);
		sum->negative = b_negative;
	}
	return normal(sum);
}

static struct jinja_value
multiply(struct jinja *j, const struct view *a, const struct view *b)
{
	struct jinja_big *product = big_new(j, a->count + b->count);

	jinja_pay(j, (size_t)a->count * b->count * 8);
	product->negative = a->negative != b->negative;
	for (uint32_t i = 0; i < a->count; i++) {
		uint64_t carry = 0;

		for (uint32_t k = 0; k < b->count; k++) {
			carry += (uint64_t)a->limbs[i] * b->limbs[k] + product->limbs[i + k];
			product->limbs[i + k] = (uint32_t)carry;
			carry >>= 32;
		}
		product->limbs[i + b->count] = (uint32_t)carry;
	}
	return normal(product);
}

/* quotient and remainder of magnitudes, bit by bit: large integers are rare in templates. */
static void
divide_magnitude(struct jinja *j, const struct view *a, const struct view *b,
    struct jinja_big **quotient, struct jinja_big **remainder)
{
	struct jinja_big *q = big_new(j, a->count), *r = big_new(j, b->count + 1);

	jinja_pay(j, (size_t)a->count * 32 * (b->count + 1) * 8);
	for (size_t bit = (size_t)a->count * 32; bit-- > 0;) {
		uint32_t carry = a->limbs[bit / 32] >> (bit % 32) & 1;
		struct view now;

		for (uint32_t i = 0; i <= b->count; i++) {
			uint32_t next = r->limbs[i] >> 31;

			r->limbs[i] = r->limbs[i] << 1 | carry;
			carry = next;
		}
		now = (struct view){false, b->count + 1, r->limbs, {0}};
		while (now.count > 0 && now.limbs[now.count - 1] == 0)
			now.count--;
		if (compare_magnitude(&now, b) >= 0) {
			int64_t borrow = 0;

			for (uint32_t i = 0; i <= b->count; i++) {
				borrow += (int64_t)r->limbs[i] - (i < b->count ? b->limbs[i] : 0);
				r->limbs[i] = (uint32_t)borrow;
				borrow >>= 32;
			}
			q->limbs[bit / 32] |= 1u << (bit % 32);
		}
	}
	*quotient = q;
	*remainder = r;
}

/* Floors, and the remainder has the divisor's sign, as Python has it. */
static struct jinja_value
divide(struct jinja *j, char op, struct jinja_value a, struct jinja_value b)
{
	struct view x, y;
	struct jinja_big *q, *r;
	struct jinja_value quotient, remainder;

	view(&x, a);
	view(&y, b);
	if (y.count == 0)
		jinja_fail(j, JINJA_RUNTIME, "integer %s by zero",
		    op == '%' ? "modulo" : "division or modulo");
	divide_magnitude(j, &x, &y, &q, &r);
	q->negative = x.negative != y.negative;
	r->negative = x.negative;
	quotient = normal(q);
	remainder = normal(r);
	if (x.negative != y.negative && jinja_truth(remainder)) {
		quotient = jinja_int_binary(j, '-', quotient, jinja_int(1));
		remainder = jinja_int_binary(j, '+', remainder, b);
	}
	return op == '%' ? remainder : quotient;
}

static bool
small_binary(char op, int64_t a, int64_t b, int64_t *out)
{
	switch (op) {
	case '+':
		return !__builtin_add_overflow(a, b, out);
	case '-':
		return !__builtin_sub_overflow(a, b, out);
	case '*':
		return !__builtin_mul_overflow(a, b, out);
	default:
		if (b == 0 || (a == INT64_MIN && b == -1))
			return false;
		*out = op == '%' ? a % b : a / b;
		if (a % b != 0 && (a < 0) != (b < 0))
			*out += op == '%' ? b : -1;
		return true;
	}
}

struct jinja_value
jinja_int_binary(struct jinja *j, char op, struct jinja_value a, struct jinja_value b)
{
	struct view x, y;
	int64_t out;

	if (a.type != JINJA_BIG && b.type != JINJA_BIG &&
	    small_binary(op, a.type == JINJA_BOOL ? a.boolean : a.integer,
		b.type == JINJA_BOOL ? b.boolean : b.integer, &out))
		return jinja_int(out);
	if (op == '/' || op == '%')
		return divide(j, op, a, b);
	view(&x, a);
	view(&y, b);
	return op == '*' ? multiply(j, &x, &y) : add(j, &x, &y, op == '-');
}

struct jinja_value
jinja_int_negate(struct jinja *j, struct jinja_value v)
{
	return jinja_int_binary(j, '-', jinja_int(0), v);
}

struct jinja_value
jinja_int_power(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
	struct jinja_value power = jinja_int(1);
	struct view base;
	uint64_t n;

	view(&base, a);
	if (b.type == JINJA_BIG) {
		if (base.count > 1 || (base.count == 1 && base.limbs[0] > 1))
			big_new(j, LIMBS_MAX + 1);
		b = jinja_int_binary(
		    j, '+', jinja_int(2), jinja_int_binary(j, '%', b, jinja_int(2)));
	}
	n = b.type == JINJA_BOOL ? b.boolean : (uint64_t)b.integer;
	if (n > 1 && (base.count > 1 || (base.count == 1 && base.limbs[0] > 1)) &&
	    n > (uint64_t)LIMBS_MAX * 32)
		big_new(j, LIMBS_MAX + 1);
	for (; n != 0; n >>= 1) {
		if (n & 1)
			power = jinja_int_binary(j, '*', power, a);
		if (n > 1)
			a = jinja_int_binary(j, '*', a, a);
	}
	return power;
}

void
jinja_int_put(struct jinja *j, struct jinja_value v, unsigned base)
{
	char digits[LIMBS_MAX * 32 + 2];
	size_t at = sizeof(digits);
	uint32_t limbs[LIMBS_MAX];
	struct view w;
	uint32_t count;

	view(&w, v);
	count = w.count;
	if (count != 0)
		memcpy(limbs, w.limbs, count * sizeof(*limbs));
	jinja_pay(j, (size_t)count * count * 80);
	do {
		uint64_t rest = 0;

		for (uint32_t i = count; i-- > 0;) {
			rest = rest << 32 | limbs[i];
			limbs[i] = (uint32_t)(rest / base);
			rest %= base;
		}
		while (count > 0 && limbs[count - 1] == 0)
			count--;
		digits[--at] = "0123456789abcdef"[rest];
	} while (count > 0);
	if (w.negative)
		digits[--at] = '-';
	jinja_put(j, digits + at, sizeof(digits) - at);
}

size_t
jinja_int_bits(struct jinja_value v)
{
	struct view w;

	view(&w, v);
	if (w.count == 0)
		return 0;
	return (size_t)w.count * 32 - (size_t)__builtin_clz(w.limbs[w.count - 1]);
}

struct jinja_value
jinja_int_from_double(struct jinja *j, double v)
{
	struct jinja_big *b;
	int exponent;
	double whole = trunc(v);

	if (!isfinite(v))
		jinja_fail(j, JINJA_RUNTIME, "cannot convert float %s to integer",
		    isnan(v) ? "NaN" : "infinity");
	if (fabs(whole) < 9.2e18)
		return jinja_int((int64_t)whole);
	whole = frexp(fabs(whole), &exponent);
	b = big_new(j, (size_t)exponent / 32 + 2);
	b->negative = v < 0;
	/* 53 bits of mantissa, moved up by exponent - 53. */
	uint64_t mantissa = (uint64_t)ldexp(whole, 53);
	for (int bit = 0; bit < 53; bit++)
		if (mantissa >> bit & 1) {
			int at = exponent - 53 + bit;

			b->limbs[at / 32] |= 1u << (at % 32);
		}
	return normal(b);
}

double
jinja_number_double(struct jinja_value v)
{
	struct view w;
	double d = 0;
	uint32_t from;
	uint64_t top;

	if (v.type == JINJA_FLOAT)
		return v.number;
	if (v.type == JINJA_INT)
		return (double)v.integer;
	view(&w, v);
	if (w.count <= 2) {
		top = w.count > 0 ? w.limbs[0] : 0;
		top |= w.count > 1 ? (uint64_t)w.limbs[1] << 32 : 0;
		return w.negative ? -(double)top : (double)top;
	}
	/* The top 64 bits, the last of them sticky, round as the whole would. */
	from = w.count - 3;
	int shift = __builtin_clz(w.limbs[w.count - 1]);
	top = (uint64_t)w.limbs[w.count - 1] << 32 | w.limbs[w.count - 2];
	top = shift == 0 ? top : top << shift | w.limbs[from] >> (32 - shift);
	bool sticky = shift == 0 ? w.limbs[from] != 0 : (uint32_t)(w.limbs[from] << shift) != 0;
	for (uint32_t i = 0; !sticky && i < from; i++)
		sticky = w.limbs[i] != 0;
	d = ldexp((double)(top | sticky), (int)(w.count - 2) * 32 - shift);
	return w.negative ? -d : d;
}

int
jinja_number_compare(struct jinja_value a, struct jinja_value b)
{
	if (a.type == JINJA_FLOAT || b.type == JINJA_FLOAT) {
		double x = jinja_number_double(a), y = jinja_number_double(b);

		return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
	}
	if (a.type == JINJA_BIG || b.type == JINJA_BIG) {
		struct view x, y;

		view(&x, a);
		view(&y, b);
		if (x.negative != y.negative)
			return x.negative ? -1 : 1;
		return x.negative ? compare_magnitude(&y, &x) : compare_magnitude(&x, &y);
	}
	int64_t x = a.type == JINJA_BOOL ? a.boolean : a.integer;
	int64_t y = b.type == JINJA_BOOL ? b.boolean : b.integer;
	return x < y ? -1 : x > y;
}
