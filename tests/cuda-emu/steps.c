/*
 * What training asks of the device beside its maths, as the emulation counts it: once a session is
 * open, no step allocates, and the host waits once in a step, for loss and norm, and once at its
 * end, before it is called done. And what becomes of a step for which there is not enough memory.
 * Prints `N passed, N failed`.
 */
#include "emu_count.h"
#include "kernels/device.h"
#include "tests/unit/trainer_fixture.h"

enum { LONG = 200, STRIDE = 16384 };
static const char memory[] = "16777216"; /* of the device */

/* Steps of one or more micro-batches: all datums, one, other packings, each twice. */
static void
check_counts(enum op_dtype compute, double dropout, size_t micro_batch, size_t rank)
{
	struct trainer_options o = plain;
	struct trainer_result result;
	struct refusal r = {0};
	struct fixture f;

	o.rank = rank;
	o.dropout = dropout;
	o.max_grad_norm = 0.5;
	o.micro_batch = micro_batch;
	o.datum_tokens = LONGEST - 1; /* of the longest the last is read by nobody */
	setup(&f, compute, &o);
	for (size_t first = 0; first < DATUMS; first++)
		for (int i = 0; i < 2; i++) {
			const struct emu_counts before = emu_counted();
			struct emu_counts after;

			if (first == 2) /* a datum without a row, and one with */
				continue;
			CHECK_MSG(trainer_step(
				      f.t, f.list + first, DATUMS - first, 1e-3, &result, &r) == 0,
			    "%s", r.text);
			after = emu_counted();
			CHECK_MSG(after.allocations == before.allocations,
			    "rank %zu, from %zu: %lu", rank, first,
			    after.allocations - before.allocations);
			CHECK_MSG(after.waits == before.waits + 2, "from %zu: %lu", first,
			    after.waits - before.waits);
		}
	teardown(&f);
}

TEST(a_step_allocates_nothing_and_waits_twice)
{
	for (int i = 0; i < 8; i++)
		check_counts(i % 2 == 0 ? OP_F32 : OP_BF16, i / 2 % 2 == 0 ? 0 : 0.3,
		    i / 4 % 2 == 0 ? 0 : 1, plain.rank);
}

/* Where the adapter takes most of the scratch memory, and a datum all of what was planned. */
TEST(the_scratch_of_every_rank_is_planned)
{
	for (size_t rank = 1; rank <= 70; rank += rank < 12 ? 1 : 29)
		for (int i = 0; i < 2; i++)
			check_counts(i % 2 == 0 ? OP_F32 : OP_BF16, 0, 1, rank);
}

/* A datum that nobody told when the session was opened, and what a step of it leaves. */
struct long_step {
	int32_t ids[LONG];
	uint8_t supervised[LONG];
	struct datum datum;
	struct trainer_result result;
	float *values; /* (3, adapter's size) */
	size_t size;
};

static void
make_long(struct long_step *l, const struct fixture *f)
{
	l->datum = (struct datum){
	    .length = LONG, .supervised_count = LONG, .ids = l->ids, .supervised = l->supervised};
	for (size_t i = 0; i < LONG; i++) {
		l->ids[i] = (int32_t)(i * 7 % f->tiny.vocabulary);
		l->supervised[i] = 1;
	}
	l->size = trainer_adapter(f->t)->size;
	l->values = malloc(3 * l->size * sizeof(float));
}

static int
train_long(struct fixture *f, struct long_step *l, struct refusal *r)
{
	const struct datum *list[] = {&l->datum};

	return trainer_step(f->t, list, 1, 1e-2, &l->result, r);
}

static void
look(const struct fixture *f, struct long_step *l)
{
	struct refusal r;

	CHECK(trainer_get(f->t, l->values, l->values + l->size, l->values + 2 * l->size, &r) == 0);
}

static size_t
free_bytes(void)
{
	struct device_info d;

	if (device_describe(&d, 0) != OP_OK)
		abort();
	return d.memory_free;
}

/* One step of the session, then one of the long datum while `left` bytes are free: as `want` has
   it, or refused with nothing changed, and right once there is memory. Was there enough? */
static bool
try_with(size_t left, const struct long_step *want, double small_loss)
{
	struct trainer_options o = plain;
	struct long_step l = {0}, before = {0};
	struct refusal r = {0};
	struct fixture f;
	void *ballast;
	bool enough;

	o.micro_batch = 1;
	setup(&f, OP_BF16, &o);
	make_long(&l, &f);
	make_long(&before, &f);
	CHECK(step(&f, 1e-2).loss == small_loss);
	CHECK(op_alloc(f.ops, &ballast, free_bytes() - left) == OP_OK);
	look(&f, &before);
	enough = train_long(&f, &l, &r) == 0;
	if (!enough) {
		CHECK(r.status == 507 && strstr(r.text, "no memory for ") != NULL);
		CHECK_MSG(
		    strstr(r.text, " of the device's 16777216 are free") != NULL, "%s", r.text);
		look(&f, &l);
		CHECK(memcmp(l.values, before.values, 3 * l.size * sizeof(float)) == 0);
		CHECK(trainer_step_count(f.t) == 1);
		CHECK(op_free(f.ops, ballast) == OP_OK);
		CHECK_MSG(train_long(&f, &l, &r) == 0, "%s", r.text);
	}
	look(&f, &l);
	CHECK(l.result.loss == want->result.loss &&
	      l.result.gradient_norm == want->result.gradient_norm);
	CHECK(memcmp(l.values, want->values, 3 * l.size * sizeof(float)) == 0);
	free(l.values);
	free(before.values);
	if (enough)
		CHECK(op_free(f.ops, ballast) == OP_OK);
	teardown(&f);
	return enough;
}

TEST(out_of_memory_is_an_answer)
{
	struct trainer_options o = plain;
	struct long_step want = {0};
	struct refusal r = {0};
	struct fixture f;
	size_t left = 0;
	double loss;

	o.micro_batch = 1;
	setup(&f, OP_BF16, &o);
	make_long(&want, &f);
	loss = step(&f, 1e-2).loss;
	CHECK_MSG(train_long(&f, &want, &r) == 0, "%s", r.text);
	look(&f, &want);
	teardown(&f);
	while (!try_with(left, &want, loss))
		left += STRIDE;
	CHECK_MSG(left >= 4 * STRIDE, "%zu", left);
	free(want.values);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {
	    TEST_CASE(a_step_allocates_nothing_and_waits_twice),
	    TEST_CASE(the_scratch_of_every_rank_is_planned), TEST_CASE(out_of_memory_is_an_answer),
	    {NULL, NULL}};

	setenv("EMU_MEMORY", memory, 1);
	return test_main(cases, argc, argv);
}
