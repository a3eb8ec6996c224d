#include "tests/bench/roofline_walk.h"

#include <math.h>

const char *
roof_kind_words(enum roof_kind kind)
{
#define ROOF_KIND_WORDS(name, words) words,
	static const char *const words[] = {ROOF_KIND_LIST(ROOF_KIND_WORDS)};
#undef ROOF_KIND_WORDS

	return words[kind];
}

static void
add(struct roof_sum *sum, double flops, double bytes, double seconds, bool by_bytes)
{
	sum->flops += flops;
	sum->bytes += bytes;
	sum->seconds += seconds;
	sum->by_bytes += by_bytes ? seconds : 0;
	sum->ops++;
}

void
roof_op(
    struct roof_walk *w, enum roof_kind kind, double flops, double bytes, double rate, double work)
{
	const double compute = flops * work / rate, move = bytes / w->rates->bytes;
	const double seconds = compute > move ? compute : move;

	add(&w->s->kind[kind], flops, bytes, seconds, move > compute);
	add(&w->s->total, flops, bytes, seconds, move > compute);
	if (w->again)
		w->s->recomputed += flops;
}

void
roof_moves(struct roof_walk *w, enum roof_kind kind, double bytes)
{
	roof_op(w, kind, 0, bytes, w->rates->single, 1);
}

double
roof_rate(const struct roof_walk *w, double size)
{
	return size == 4 ? w->rates->single : w->rates->flops;
}

/* The share of the processors' time that `count` tiles of `area` leave busy with m * n. */
static double
fill_of(double m, double n, double count, double area, double processors)
{
	return m * n / (ceil(count / processors) * processors * area);
}

double
roof_fill(double m, double n, double k, size_t processors)
{
	static const double tiles[][2] = {
	    {256, 128}, {128, 256}, {192, 128}, {128, 192}, {128, 128}, {256, 64}, {64, 256}};
	double best = 0;

	if (processors == 0 || m < 128 || n < 128)
		return 1;
	for (size_t i = 0; i < sizeof(tiles) / sizeof(*tiles); i++) {
		const double count = ceil(m / tiles[i][0]) * ceil(n / tiles[i][1]);

		for (double part = 1; part <= 8 && (part == 1 || k / part >= 1024); part++) {
			const double area = tiles[i][0] * tiles[i][1] / part;

			best = fmax(best, fill_of(m, n, count * part, area, (double)processors));
		}
	}
	return best;
}

void
roof_product(
    struct roof_walk *w, enum roof_kind kind, double m, double n, double k, double size, double c)
{
	roof_op(w, kind, 2 * m * n * k, size * (m + n) * k + c * m * n, roof_rate(w, size),
	    1 / roof_fill(m, n, k, w->rates->processors));
}
