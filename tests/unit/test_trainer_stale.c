/*
 * Nothing that a step leaves behind is read by the next one, and nothing is read before it was
 * written: whatever layers are adapted, however many are recomputed, with and without dropout, a
 * step gives the bits of the first step of a session that keeps every layer. Before it, memory is
 * full of what a step that was refused left: NaN, or what overflowed.
 */
#include "tests/unit/trainer_fixture.h"

enum { LAYERS = 3 };

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

/* A step that is refused with every value of the adapter so. */
static void
spoil(struct fixture *f, float value)
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
	free(param);
}

/* The loss, then the gradients and the parameters after one step, on the host. */
static float *
step_after(struct fixture *f, float value, double *loss)
{
	const size_t n = trainer_adapter(f->t)->size;
	float *out = malloc(2 * n * sizeof(*out));
	struct refusal r = {0};

	if (value != 0)
		spoil(f, value);
	free(random_adapter(f));
	*loss = step(f, 1e-2).loss;
	CHECK(trainer_get_gradient(f->t, out, &r) == 0);
	CHECK(trainer_get(f->t, out + n, NULL, NULL, &r) == 0);
	return out;
}

static void
check_case(const struct tiny_model *m, const struct trainer_options *o, enum op_dtype compute)
{
	float *want = NULL;
	double first = 0;

	for (size_t layers = 0; layers <= LAYERS; layers += layers == 0 ? 2 : 1)
		for (size_t i = 0; i < BEFORE; i++) {
			struct fixture f;
			double loss;
			float *got;
			size_t n;

			setup_model(&f, m, compute, o);
			n = trainer_adapter(f.t)->size;
			if (layers != 0)
				f.t->work.pass_most = memory_for(&f, layers);
			got = step_after(&f, before[i], &loss);
			if (want == NULL) {
				want = got;
				first = loss;
			} else {
				CHECK_MSG(
				    loss == first && memcmp(got, want, 2 * n * sizeof(*got)) == 0,
				    "%s, %zu wide, %zu recomputed, after %g, dropout %g, targets "
				    "%s",
				    compute == OP_F32 ? "f32" : "bf16", m->width, layers,
				    (double)before[i], o->dropout,
				    o->target_modules == NULL ? "all" : o->target_modules);
				free(got);
			}
			teardown(&f);
		}
	free(want);
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

TEST_MAIN(TEST_CASE(nothing_stale_is_read), TEST_CASE(nothing_stale_is_read_with_dropout))
