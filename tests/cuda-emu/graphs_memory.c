/*
 * The memory of CUDA graphs (kernels/repeat.h) on the emulated device: they keep to what they may
 * take, give way to whoever asks for it, go with the trainer, and a step that is one allocates
 * nothing. Prints `N passed, N failed`.
 */
#include "emu_count.h"
#include "tests/cuda-emu/session_pair.h"

enum { ROOM = 16 << 20 };

/* With so many bytes for graphs, steps of two shapes in turn. How many graphs there are then. */
static struct repeat_counts
two_in_turn(size_t bytes)
{
	struct trainer_options o = plain;
	struct repeat_counts c;
	struct pair p;

	open_pair(&p, 1, OP_F32, &o);
	repeat_allow(p.f[1].ops, bytes);
	for (int i = 0; i < 6; i++) {
		step_pair(&p, all, DATUMS);
		step_pair(&p, fewer, 2);
	}
	c = counted(&p);
	CHECK_MSG(c.bytes <= bytes, "%zu of %zu", c.bytes, bytes);
	/* one shape for a while: the other one's graph makes room */
	for (int i = 0; i < 4; i++)
		step_pair(&p, fewer, 2);
	if (c.graphs == 1)
		CHECK(counted(&p).launched == c.launched + 4 && counted(&p).graphs == 1);
	CHECK(counted(&p).bytes <= bytes);
	close_pair(&p);
	return c;
}

TEST(graphs_keep_to_their_memory)
{
	const struct repeat_counts both = two_in_turn(ROOM);
	struct repeat_counts one = two_in_turn(both.bytes - 1), none = two_in_turn(both.bytes / 4);

	CHECK(both.graphs == 2 && both.launched == 10);
	/* the first stays, and the other is never recorded */
	CHECK_MSG(one.graphs == 1 && one.launched == 5 && one.recorded == 1, "%zu %zu %zu",
	    one.graphs, (size_t)one.launched, (size_t)one.recorded);
	CHECK(none.graphs == 0 && none.launched == 0 && none.recorded == 1);
	CHECK(two_in_turn(0).recorded == 0);
}

/* What somebody else asks for comes first, and then there are graphs again. */
TEST(graphs_give_way)
{
	struct trainer_options o = plain;
	void *memory, *more;
	size_t most;
	struct pair p;

	open_pair(&p, 1, OP_F32, &o);
	for (int i = 0; i < 3; i++)
		step_pair(&p, all, DATUMS);
	CHECK(counted(&p).graphs == 1 && counted(&p).bytes > 1024);
	for (most = 1ul << 40; op_alloc(p.f[0].ops, &memory, most) != OP_OK;)
		most -= most > 1 << 20 ? most / 1024 : 512;
	/* no graph of the other context's was asked to go */
	CHECK(counted(&p).graphs == 1);
	CHECK(op_alloc(p.f[1].ops, &more, 1024 + counted(&p).bytes / 2) == OP_OK);
	CHECK(counted(&p).graphs == 0 && counted(&p).bytes == 0);
	CHECK(op_free(p.f[1].ops, more) == OP_OK);
	CHECK(op_free(p.f[0].ops, memory) == OP_OK);
	for (int i = 0; i < 3; i++)
		step_pair(&p, all, DATUMS);
	CHECK(counted(&p).graphs == 1 && counted(&p).launched == 4);
	close_pair(&p);
}

/* A trainer that goes takes its graphs along: the next one's addresses may be the same. */
TEST(graphs_do_not_outlive_their_memory)
{
	struct trainer_options o = plain;
	struct pair p;

	open_pair(&p, 1, OP_F32, &o);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			step_pair(&p, all, DATUMS);
		CHECK(counted(&p).graphs == 1 && counted(&p).launched == 2 * (uint64_t)(round + 1));
		if (round == 1)
			break;
		for (int i = 0; i < PAIR; i++) {
			trainer_free(p.f[i].t);
			CHECK(repeat_counted(p.f[i].ops).graphs == 0);
			o.graphs = i == 1;
			open_trainer(&p.f[i], &o);
		}
	}
	close_pair(&p);
}

/* Nothing of ours is allocated, and nobody waits more often than without graphs. */
TEST(graphs_neither_allocate_nor_wait)
{
	struct trainer_options o = plain;
	struct fixture f;

	o.graphs = true;
	o.datum_tokens = LONGEST;
	setup(&f, OP_BF16, &o);
	for (int i = 0; i < 4; i++) {
		const struct emu_counts before = emu_counted();
		struct emu_counts after;

		step(&f, 1e-2);
		after = emu_counted();
		CHECK_MSG(after.allocations == before.allocations, "step %d", i);
		CHECK_MSG(after.waits == before.waits + 2, "step %d", i);
	}
	CHECK(repeat_counted(f.ops).launched == 3);
	teardown(&f);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(graphs_keep_to_their_memory),
	    TEST_CASE(graphs_give_way), TEST_CASE(graphs_do_not_outlive_their_memory),
	    TEST_CASE(graphs_neither_allocate_nor_wait), {NULL, NULL}};

	setenv("EMU_MEMORY", "67108864", 1);
	return test_main(cases, argc, argv);
}
