/*
 * Passes that are CUDA graphs when they come again (kernels/repeat.h), on the emulated device: to
 * the byte what they are without, in sessions side by side, and really launched so; what becomes of
 * them where memory lacks, and where they cannot be made. Prints `N passed, N failed`.
 */
#include "emu_count.h"
#include "kernels/repeat.h"
#include "tests/cuda-emu/fail.h"
#include "tests/unit/trainer_fixture.h"
#include "worker/train/evaluate.h"

enum { PAIR = 2, DEEP = 3, ROOM = 16 << 20, WHOLE = 64 /* tokens: all datums */ };

/* Two sessions that are given the same: the first without graphs, the second with. */
struct pair {
	struct fixture f[PAIR];
	float *values[PAIR]; /* (3, adapter's size) */
	size_t size;
};

static void
open_pair(
    struct pair *p, size_t layers, enum op_dtype compute, const struct trainer_options *options)
{
	struct tiny_model deep = tiny_default;

	deep.layers = layers;
	for (int i = 0; i < PAIR; i++) {
		struct trainer_options o = *options;

		o.graphs = i == 1;
		o.datum_tokens = LONGEST;
		o.micro_batch = o.micro_batch != 0 ? o.micro_batch : WHOLE;
		setup_model(&p->f[i], &deep, compute, &o);
		free(random_adapter(&p->f[i]));
		p->size = trainer_adapter(p->f[i].t)->size;
		p->values[i] = malloc(3 * p->size * sizeof(float));
	}
}

static void
close_pair(struct pair *p)
{
	for (int i = 0; i < PAIR; i++) {
		CHECK_STR(repeat_trouble(p->f[i].ops), "");
		free(p->values[i]);
		teardown(&p->f[i]);
	}
}

static struct repeat_counts
counted(const struct pair *p)
{
	CHECK(repeat_counted(p->f[0].ops).launched == 0);
	return repeat_counted(p->f[1].ops);
}

/* A step of the datums in `order`, in both sessions; afterwards all of them is alike. */
static void
step_pair(struct pair *p, const size_t *order, size_t count)
{
	struct trainer_result result[PAIR];
	struct refusal r = {0};

	memset(result, 0, sizeof(result));
	for (int i = 0; i < PAIR; i++) {
		struct fixture *f = &p->f[i];
		const struct datum *list[DATUMS];
		float *v = p->values[i];

		for (size_t n = 0; n < count; n++)
			list[n] = &f->datums[order[n]];
		CHECK_MSG(trainer_step(f->t, list, count, 1e-2, &result[i], &r) == 0, "%s", r.text);
		CHECK(trainer_get(f->t, v, v + p->size, v + 2 * p->size, &r) == 0);
	}
	CHECK_MSG(result[0].loss == result[1].loss, "%a, %a", result[0].loss, result[1].loss);
	CHECK(result[0].gradient_norm == result[1].gradient_norm && result[0].loss > 0);
	CHECK(memcmp(p->values[0], p->values[1], 3 * p->size * sizeof(float)) == 0);
}

static void
evaluate_pair(struct pair *p, bool adapter)
{
	double sums[PAIR][DATUMS], logp[PAIR][DATUMS * LONGEST] = {0};
	struct trainer_evaluation e[PAIR];
	struct refusal r = {0};

	for (int i = 0; i < PAIR; i++)
		CHECK_MSG(trainer_evaluate(p->f[i].t, p->f[i].list, DATUMS, adapter, sums[i],
			      logp[i], &e[i], &r) == 0,
		    "%s", r.text);
	CHECK(memcmp(sums[0], sums[1], sizeof(sums[0])) == 0);
	CHECK(memcmp(logp[0], logp[1], sizeof(logp[0])) == 0);
}

static const size_t all[] = {0, 1, 2, 3}, fewer[] = {3, 1};

/* The memory in which all layers of the largest micro-batch are recomputed. */
static void
recompute_all(struct pair *p)
{
	for (int i = 0; i < PAIR; i++) {
		struct trainer *t = p->f[i].t;
		struct activations_shape shape = trainer_shape(t, true);

		shape.backward = true;
		shape.dropout = t->options.dropout != 0;
		for (size_t d = 0; d < DATUMS; d++) {
			shape.tokens += batch_datum_tokens(&p->f[i].datums[d]);
			shape.rows += batch_datum_rows(&p->f[i].datums[d]);
		}
		t->work.pass_most = memory_fit(
		    &t->work.acts, &t->work.backend, t->model->config, &shape, t->work.scratch, 0);
	}
}

/* Steps of a shape, of another, of the first again, with passes between them that do not learn;
   each is first done as it comes, then recorded, then launched. */
static void
check_steps(enum op_dtype compute, size_t micro_batch, bool recompute, double dropout)
{
	struct trainer_options o = plain;
	struct repeat_counts c;
	struct pair p;

	o.micro_batch = micro_batch;
	o.dropout = dropout;
	open_pair(&p, DEEP, compute, &o);
	if (recompute)
		recompute_all(&p);
	for (int i = 0; i < 4; i++)
		step_pair(&p, all, DATUMS);
	for (int i = 0; i < 3; i++) {
		step_pair(&p, fewer, 2);
		step_pair(&p, all, DATUMS);
		evaluate_pair(&p, i != 1);
		evaluate_pair(&p, i != 1);
	}
	if (recompute && micro_batch == 0)
		CHECK(p.f[1].t->work.acts.shape.recompute == DEEP);
	c = counted(&p);
	/* Without a split 3 of 4, 2 of 3, all 3 of all datums; 3 and 1 of 4 and 2 evaluations. */
	if (dropout != 0)
		CHECK_MSG(c.launched == 4 && c.recorded == 2, "%zu, %zu", (size_t)c.launched,
		    (size_t)c.recorded);
	else if (micro_batch == 0)
		CHECK_MSG(c.launched == 3 + 2 + 3 + 4 && c.recorded == 4, "%zu, %zu",
		    (size_t)c.launched, (size_t)c.recorded);
	else
		CHECK_MSG(c.launched >= 25 && c.recorded == c.graphs, "%zu, %zu, %zu",
		    (size_t)c.launched, (size_t)c.recorded, c.graphs);
	CHECK(c.bytes > 0);
	close_pair(&p);
}

TEST(steps_are_the_same_to_the_byte)
{
	for (int i = 0; i < 4; i++)
		check_steps(i % 2 == 0 ? OP_F32 : OP_BF16, i / 2, i == 1 || i == 2, 0);
}

/* Each pass has masks of its own, so only those without dropout are graphs. */
TEST(and_with_dropout)
{
	check_steps(OP_BF16, 0, false, 0.3);
}

/* Other sequences, other order, other boundaries: as long as there are as many of all. */
TEST(packings_of_the_same_counts_share_a_graph)
{
	static const size_t there[] = {0, 3, 1}, back[] = {1, 3, 0};
	struct trainer_options o = plain;
	struct pair p;

	open_pair(&p, 2, OP_BF16, &o);
	for (int i = 0; i < 6; i++)
		step_pair(&p, i % 2 == 0 ? there : back, 3);
	CHECK(counted(&p).launched == 5 && counted(&p).recorded == 1 && counted(&p).graphs == 1);
	close_pair(&p);
}

/* As many tokens and rows, of one sequence or of two, which are more tiles: more blocks. */
TEST(more_sequences_are_another_graph)
{
	static const size_t one[] = {1}, two[] = {0, 3};
	struct trainer_options o = plain;
	struct pair p;

	open_pair(&p, 2, OP_BF16, &o);
	for (int i = 0; i < PAIR; i++)
		for (int d = 0; d < DATUMS; d++) {
			struct datum *datum = &p.f[i].datums[d];

			datum->length = d == 1 ? 13 : 7;
			datum->supervised_count = datum->length;
			memset(p.f[i].supervised[d], 1, datum->length);
		}
	for (int i = 0; i < 3; i++)
		step_pair(&p, one, 1);
	for (int i = 0; i < 4; i++) {
		step_pair(&p, two, 2);
		step_pair(&p, one, 1);
	}
	CHECK(counted(&p).graphs == 2 && counted(&p).launched == 2 + 3 + 4);
	close_pair(&p);
}

/* Attention of 192 tokens in the tiles of flash.cu, a launch with as many blocks as there are. */
enum { ROWS = 192, WIDTH = 64 };

struct attention {
	struct op_context *ops;
	const struct op_packing *packing;
	void *out, *x;
	float *lse;
};

static enum op_status
attend(const void *argument)
{
	static const struct op_attention_shape shape = {1, 1, WIDTH, 0, 0.125f};
	const struct attention *a = argument;

	return op_attention(a->ops, a->out, a->lse, a->x, a->x, a->x, a->packing, &shape);
}

/* One sequence or three: three tiles of 64 rows either way, but two or three of 128. */
TEST(sizes_of_tiles_are_told_apart)
{
	static const uint32_t one[] = {0, ROWS}, three[] = {0, 64, 128, ROWS};
	const struct op_packing packing[2] = {{one, NULL, 1, ROWS}, {three, NULL, 3, ROWS}};
	const struct op_options options = {.compute = OP_BF16, .threads = 1};
	const uint64_t key = 1;
	static uint16_t x[ROWS * WIDTH], want[2][ROWS * WIDTH], got[ROWS * WIDTH];
	struct attention a = {0};

	for (size_t i = 0; i < ROWS * WIDTH; i++)
		x[i] = (uint16_t)(0x3f00 + i * 7919 % 251);
	CHECK(op_open(&a.ops, &options) == OP_OK);
	CHECK(op_alloc(a.ops, &a.x, sizeof(x)) == OP_OK);
	CHECK(op_alloc(a.ops, &a.out, sizeof(x)) == OP_OK);
	CHECK(op_alloc(a.ops, (void **)&a.lse, ROWS * sizeof(float)) == OP_OK);
	CHECK(op_upload(a.ops, a.x, x, sizeof(x)) == OP_OK);
	for (int i = 0; i < 10; i++) {
		const int p =
		    i < 2 ? i : i / 2 % 2; /* both as they come, then each of them again */

		a.packing = &packing[p];
		repeat_allow(a.ops, i < 2 ? 0 : ROOM);
		CHECK(repeat_run(a.ops, &key, 1, a.packing, attend, &a) == OP_OK);
		CHECK(op_download(a.ops, i < 2 ? want[p] : got, a.out, sizeof(x)) == OP_OK);
		CHECK_MSG(i < 2 || memcmp(got, want[p], sizeof(x)) == 0, "time %d", i);
	}
	CHECK(memcmp(want[0], want[1], sizeof(x)) != 0);
	CHECK(repeat_counted(a.ops).recorded == 2 && repeat_counted(a.ops).launched == 6);
	CHECK(op_free(a.ops, a.lse) == OP_OK && op_free(a.ops, a.out) == OP_OK);
	CHECK(op_free(a.ops, a.x) == OP_OK);
	op_close(a.ops);
}

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

/* Any call about graphs, and any op while it is recorded, fails in itself: the step is what it is
   without graphs, and there are none from then on. */
static void
check_trouble(uint32_t what, uint32_t nth, int error)
{
	static struct emu_fail_page page, none;
	struct trainer_options o = plain;
	const char *trouble;
	struct pair p;

	open_pair(&p, 1, OP_F32, &o);
	step_pair(&p, all, DATUMS);
	page = (struct emu_fail_page){.what = what, .nth = nth, .error = error};
	/* only the session with graphs calls these; of others, those of its second step */
	emu_fail_use(&page);
	step_pair(&p, all, DATUMS);
	step_pair(&p, all, DATUMS);
	emu_fail_use(&none);
	CHECK(page.fired == 1);
	trouble = repeat_trouble(p.f[1].ops);
	CHECK_MSG(strstr(trouble, page.name) != NULL, "\"%s\" of %s", trouble, page.name);
	CHECK(counted(&p).graphs == 0 && counted(&p).bytes == 0);
	for (int i = 0; i < 2; i++)
		step_pair(&p, all, DATUMS);
	CHECK(counted(&p).launched <= 1 && counted(&p).graphs == 0);
	for (int i = 0; i < PAIR; i++) {
		free(p.values[i]);
		teardown(&p.f[i]);
	}
}

TEST(what_cannot_be_a_graph_is_done_as_it_comes)
{
	static const int errors[] = {900, 2, 801, 1, 901};

	for (uint32_t n = 1; n <= 5; n++) /* begin, end, instantiate, destroy, upload */
		check_trouble(EMU_CAPTURE, n, errors[n % 2]);
	for (int n = 0; n < 5; n++)
		check_trouble(EMU_GRAPH, 1 + (uint32_t)n % 2, errors[n]);
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
	static const struct test_case cases[] = {TEST_CASE(steps_are_the_same_to_the_byte),
	    TEST_CASE(and_with_dropout), TEST_CASE(packings_of_the_same_counts_share_a_graph),
	    TEST_CASE(more_sequences_are_another_graph), TEST_CASE(sizes_of_tiles_are_told_apart),
	    TEST_CASE(graphs_keep_to_their_memory), TEST_CASE(graphs_give_way),
	    TEST_CASE(graphs_do_not_outlive_their_memory),
	    TEST_CASE(what_cannot_be_a_graph_is_done_as_it_comes),
	    TEST_CASE(graphs_neither_allocate_nor_wait), {NULL, NULL}};

	setenv("EMU_MEMORY", "67108864", 1);
	return test_main(cases, argc, argv);
}
