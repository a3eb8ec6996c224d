/*
 * Passes that are CUDA graphs when they come again (kernels/repeat.h), on the emulated device: to
 * the byte what they are without, in sessions side by side, and really launched so, also where they
 * cannot be made. Their memory: graphs_memory.c. Prints `N passed, N failed`.
 */
#include "tests/cuda-emu/fail.h"
#include "tests/cuda-emu/session_pair.h"
#include "worker/train/evaluate.h"

enum { DEEP = 3, ROOM = 16 << 20 };

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

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(steps_are_the_same_to_the_byte),
	    TEST_CASE(and_with_dropout), TEST_CASE(packings_of_the_same_counts_share_a_graph),
	    TEST_CASE(more_sequences_are_another_graph), TEST_CASE(sizes_of_tiles_are_told_apart),
	    TEST_CASE(what_cannot_be_a_graph_is_done_as_it_comes), {NULL, NULL}};

	setenv("EMU_MEMORY", "67108864", 1);
	return test_main(cases, argc, argv);
}
