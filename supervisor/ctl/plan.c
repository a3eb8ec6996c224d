#include "supervisor/ctl/plan.h"

#include <errno.h>
#include <stdlib.h>

/* splitmix64 (Steele, Lea, Flood 2014): a next state and its output. */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Fisher and Yates, by a generator that no library can change. */
static void
shuffle(size_t *order, size_t count, uint64_t seed)
{
	uint64_t state = seed;

	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)(next_random(&state) % i);
		size_t held = order[i - 1];

		order[i - 1] = order[j];
		order[j] = held;
	}
}

static size_t
guess_tokens(const struct row *row)
{
	return row->bytes * 2 / 7 + 8;
}

/* Cuts one epoch, order[first .. first+count), into steps. */
static void
cut(struct plan *p, const struct rows *rows, const struct plan_options *o, size_t first,
    size_t count)
{
	size_t in_step = 0, tokens = 0;

	for (size_t i = first; i < first + count; i++) {
		size_t more = guess_tokens(&rows->rows[p->order[i]]);
		bool full =
		    o->batch_size > 0 ? in_step == o->batch_size : tokens + more > o->batch_tokens;

		if (in_step > 0 && full) {
			p->start[++p->steps] = i;
			in_step = tokens = 0;
		}
		in_step++;
		tokens += more;
	}
	p->start[++p->steps] = first + count;
}

int
plan_make(struct plan *p, const struct rows *rows, const struct plan_options *o)
{
	size_t n = rows->count, all;

	*p = (struct plan){0};
	if (__builtin_mul_overflow(n, o->epochs, &all))
		return -ENOMEM;
	p->order = calloc(all, sizeof(*p->order));
	p->start = calloc(all + 1, sizeof(*p->start));
	if (p->order == NULL || p->start == NULL) {
		plan_fini(p);
		return -ENOMEM;
	}
	for (size_t e = 0; e < o->epochs; e++) {
		size_t *order = p->order + e * n;

		for (size_t i = 0; i < n; i++)
			order[i] = i;
		if (o->shuffle)
			shuffle(order, n, o->seed + 0x632be59bd9b4e019u * (e + 1));
		cut(p, rows, o, e * n, n);
	}
	return 0;
}

void
plan_fini(struct plan *p)
{
	free(p->order);
	free(p->start);
	*p = (struct plan){0};
}
