/*
 * Nothing that a step leaves behind is read by the next one, and nothing is read before it was
 * written: whatever layers are adapted, however many are recomputed, with and without dropout, a
 * step gives the bits of the first step of a session that keeps every layer. Before it, memory is
 * full of what a step that was refused left: NaN, or what overflowed; and what was found then is
 * the same thing each time.
 */
#include "tests/unit/trainer_fixture.h"
#include "worker/train/generate.h"

enum { LAYERS = 3, WRITTEN = 7 /* tokens */ };

/* Odd widths, and such as vectors and tensor cores take. */
static const struct tiny_model models[] = {{.layers = LAYERS,
					       .width = 20,
					       .heads = 6,
					       .kv_heads = 2,
					       .head_dim = 6,
					       .mlp_width = 27,
					       .vocabulary = 37,
					       .biases = true},
    {.layers = LAYERS,
	.width = 32,
	.heads = 2,
	.kv_heads = 1,
	.head_dim = 64,
	.mlp_width = 48,
	.vocabulary = 40,
	.biases = false}};
static const size_t ranks[] = {1, 4};

static const char *const targets[] = {
    NULL,
    "down_proj",
    "q_proj,v_proj",
    "o_proj,up_proj",
    "layers.1.self_attn.k_proj,layers.1.mlp.gate_proj",
    "layers.0.mlp.up_proj,layers.1.self_attn.o_proj,layers.2.self_attn.v_proj",
    "layers.2.mlp.down_proj",
};

/* What a step is taken after: nothing, or one that was refused for its adapter's values. */
static const float before[] = {0, NAN, 1e38f};

enum {
	MODELS = sizeof(models) / sizeof(*models),
	TARGETS = sizeof(targets) / sizeof(*targets),
	BEFORE = sizeof(before) / sizeof(*before)
};

static const struct datum *
longest(const struct fixture *f)
{
	for (size_t i = 0; i < DATUMS; i++)
		if (f->datums[i].length == LONGEST)
			return &f->datums[i];
	abort();
}

/* The memory in which so many layers of the longest datum are recomputed. */
static size_t
memory_for(struct fixture *f, size_t layers)
{
	struct workspace *w = &f->t->work;
	struct activations_shape shape = trainer_shape(f->t, true);
	size_t scratch;

	shape.backward = true;
	shape.recompute = layers;
	shape.dropout = f->t->options.dropout != 0;
	shape.tokens = batch_datum_tokens(longest(f));
	shape.rows = batch_datum_rows(longest(f));
	scratch = memory_scratch(&w->backend, f->t->model->config, &shape);
	if (scratch < w->scratch)
		scratch = w->scratch;
	return activations_cut(&w->acts, f->t->model->config, &shape, NULL) + scratch;
}

/* A step that is refused with every value of the adapter so, and why. */
static void
spoil(struct fixture *f, float value, struct refusal *why)
{
	const size_t n = trainer_adapter(f->t)->size;
	float *param = malloc(n * sizeof(*param));
	struct trainer_result result;
	struct refusal r = {0};

	for (size_t i = 0; i < n; i++)
		param[i] = value;
	CHECK(trainer_set(f->t, param, NULL, NULL, &r) == 0);
	CHECK(trainer_step(f->t, f->list, DATUMS, 1e-2, &result, &r) == -1);
	CHECK_MSG(r.status == 422, "%s", r.text);
	if (why->status == 0)
		*why = r;
	CHECK_STR(r.text, why->text);
	free(param);
}

struct outcome {
	double loss;
	float *values; /* gradients, then parameters */
	size_t bytes;
};

static struct outcome
step_of(struct fixture *f)
{
	const size_t n = trainer_adapter(f->t)->size;
	struct outcome o = {.bytes = 2 * n * sizeof(float)};
	struct refusal r = {0};

	o.values = malloc(o.bytes);
	free(random_adapter(f));
	o.loss = step(f, 1e-2).loss;
	CHECK(trainer_get_gradient(f->t, o.values, &r) == 0);
	CHECK(trainer_get(f->t, o.values + n, NULL, NULL, &r) == 0);
	return o;
}

/* One step in a new session. why: what the steps before it were refused for, each time. */
static struct outcome
run(const struct tiny_model *m, const struct trainer_options *o, enum op_dtype compute,
    size_t layers, size_t i, struct refusal *why)
{
	struct outcome out;
	struct fixture f;

	setup_model(&f, m, compute, o);
	if (layers != 0)
		f.t->work.pass_most = memory_for(&f, layers);
	if (before[i] != 0)
		spoil(&f, before[i], &why[i]);
	out = step_of(&f);
	teardown(&f);
	return out;
}

static void
check_case(const struct tiny_model *m, const struct trainer_options *o, enum op_dtype compute)
{
	struct refusal why[BEFORE] = {0};
	const struct outcome want = run(m, o, compute, 0, 0, why);

	for (size_t layers = 0; layers <= LAYERS; layers += layers == 0 ? 2 : 1)
		for (size_t i = layers == 0; i < BEFORE; i++) {
			const struct outcome got = run(m, o, compute, layers, i, why);

			CHECK_MSG(got.loss == want.loss &&
				      memcmp(got.values, want.values, want.bytes) == 0,
			    "%s, %zu wide, %zu recomputed, after %g, dropout %g, targets %s",
			    compute == OP_F32 ? "f32" : "bf16", m->width, layers, (double)before[i],
			    o->dropout, o->target_modules == NULL ? "all" : o->target_modules);
			free(got.values);
		}
	free(want.values);
}

static void
check_all(enum op_dtype compute, double dropout)
{
	for (size_t m = 0; m < MODELS; m++)
		for (size_t i = 0; i < TARGETS; i++) {
			struct trainer_options o = plain;

			o.rank = ranks[m];
			o.dropout = dropout;
			o.micro_batch = 1;
			o.target_modules = targets[i];
			check_case(&models[m], &o, compute);
		}
}

TEST(nothing_stale_is_read)
{
	check_all(OP_F32, 0);
	check_all(OP_BF16, 0);
}

TEST(nothing_stale_is_read_with_dropout)
{
	check_all(OP_F32, 0.3);
	check_all(OP_BF16, 0.3);
}

/* What follows the first `count` tokens of a datum, with the adapter. */
static void
write_text(struct fixture *f, size_t count, int32_t *out)
{
	const struct generate_options o = {.adapter = true, .maximum = WRITTEN};
	struct refusal r = {0};
	size_t written;

	free(random_adapter(f));
	CHECK_MSG(trainer_generate(f->t, longest(f)->ids, count, &o, out, &written, &r) == 0, "%s",
	    r.text);
	CHECK(written == WRITTEN);
}

/* The cache of keys and values lies where a step had something else. */
TEST(nothing_stale_is_read_where_a_text_goes_on)
{
	for (size_t i = 0; i < 4 * MODELS; i++) {
		const enum op_dtype compute = i % 2 == 0 ? OP_F32 : OP_BF16;
		const size_t count = i / 2 % 2 == 0 ? 1 : LONGEST;
		int32_t want[WRITTEN], got[WRITTEN];
		struct refusal why = {0};
		struct fixture f;

		setup_model(&f, &models[i / 4], compute, &plain);
		write_text(&f, count, want);
		spoil(&f, NAN, &why);
		write_text(&f, count, got);
		CHECK(memcmp(got, want, sizeof(want)) == 0);
		teardown(&f);
	}
}

TEST_MAIN(TEST_CASE(nothing_stale_is_read), TEST_CASE(nothing_stale_is_read_with_dropout),
    TEST_CASE(nothing_stale_is_read_where_a_text_goes_on))
