/*
 * The launches of a training step on the emulated device, counted, against those of the roofline
 * (tests/bench/roofline_ops.h): a list of ops that leaves one out, or has one that is not there
 * any more, is seen here. Kernels, products of cuBLAS and memory set count; copies do not.
 */
#include "tests/bench/roofline_ops.h"
#include "tests/cuda-emu/fail.h"
#include "tests/unit/trainer_fixture.h"

enum { LONGEST_DATUM = 1200 };

/* A step of one sequence of `tokens`, all supervised; of `recompute` layers the forward pass runs
   twice. */
static void
check_counted(size_t layers, size_t vocabulary, size_t tokens, size_t recompute)
{
	static int32_t ids[LONGEST_DATUM + 1];
	static uint8_t supervised[LONGEST_DATUM + 1];
	static struct emu_fail_page page, none;
	static const struct roof_rates rates = {
	    .flops = 1e12, .attention = 1e12, .single = 1e12, .bytes = 1e12};
	const struct tiny_model tiny = {.layers = layers,
	    .width = 64,
	    .heads = 2,
	    .kv_heads = 1,
	    .head_dim = 64,
	    .mlp_width = 96,
	    .vocabulary = vocabulary,
	    .tied = true};
	const struct roof_model m = {
	    "tiny", layers, 64, 2, 1, 64, 96, vocabulary, true, 0, 0, 0, 0};
	const struct roof_options o = {
	    .tokens = tokens, .rank = plain.rank, .recompute = recompute};
	const struct datum datum = {.id = "d",
	    .length = (uint32_t)tokens + 1,
	    .supervised_count = (uint32_t)tokens + 1,
	    .ids = ids,
	    .supervised = supervised};
	const struct datum *list[] = {&datum};
	struct trainer_result result;
	struct refusal r = {0};
	struct roof_step s;
	struct fixture f;
	size_t counted = 0;

	memset(supervised, 1, sizeof(supervised));
	setup_model(&f, &tiny, OP_BF16, &plain);
	if (recompute != 0) {
		struct activations_shape shape = trainer_shape(f.t, true);

		shape.backward = true;
		shape.tokens = shape.rows = tokens;
		f.t->work.pass_most = memory_fit(
		    &f.t->work.acts, &f.t->work.backend, f.t->model->config, &shape, 0, 0);
	}
	page = (struct emu_fail_page){.note = 1};
	emu_fail_use(&page);
	CHECK_MSG(trainer_step(f.t, list, 1, 1e-3, &result, &r) == 0, "%s", r.text);
	emu_fail_use(&none);
	CHECK(f.t->work.acts.shape.recompute == recompute);
	CHECK(page.noted < EMU_NOTED);
	for (size_t i = 0; i < page.noted; i++)
		counted += page.call[i].what == EMU_LAUNCH || page.call[i].what == EMU_GEMM ||
			   page.call[i].what == EMU_SET;
	roof_step_make(&s, &m, &o, &rates);
	CHECK_MSG(
	    counted == s.total.ops, "%zu launches, the roofline has %zu", counted, s.total.ops);
	teardown(&f);
}

TEST(a_step_has_the_launches_of_the_roofline)
{
	check_counted(1, 96, 40, 0);
	check_counted(3, 96, 100, 0);
}

TEST(and_where_layers_are_recomputed)
{
	check_counted(3, 96, 40, 3);
}

/* Two panels of the vocabulary; two chunks of rows. */
TEST(and_where_the_head_is_cut)
{
	check_counted(1, 17000, 20, 0);
	check_counted(1, 96, 1100, 0);
}

TEST_MAIN(TEST_CASE(a_step_has_the_launches_of_the_roofline),
    TEST_CASE(and_where_layers_are_recomputed), TEST_CASE(and_where_the_head_is_cut))
