/* The plan of a session's memory against what the backend allocates (what fits where:
   test_memory_fit.c). Linked with CUDA's ops, emulated or not, it asks the device. */
#include "kernels/context.h"
#include "kernels/device.h"
#include "tests/unit/trainer_fixture.h"
#include "worker/model/memory_plan.h"

enum { TOKENS = 120, DEEP = 4 };

#pragma weak memory_in_use /* the CPU's alone */

static bool
on_device(void)
{
	return strcmp(device_backend(), "cuda") == 0;
}

/* Bytes that are taken now, by whatever it is. */
static size_t
in_use(void)
{
	struct device_info d = {0};

	if (!on_device())
		return memory_in_use();
	if (device_describe(&d, 0) != OP_OK)
		abort();
	return d.memory - d.memory_free;
}

struct shape_case {
	size_t layers, width, heads, kv_heads, head_dim, mlp_width, vocabulary, rank;
	bool tied;
};

static const struct shape_case shapes[] = {
    {2, 20, 6, 2, 6, 27, 37, 3, false},
    {5, 64, 4, 4, 16, 96, 1024, 8, true},
    {1, 256, 4, 1, 64, 700, 5000, 1, true},
    {3, 32, 2, 1, 128, 48, 300, 40, false},
};

/* One datum of TOKENS + 1: the last of them is predicted and predicts nothing. */
struct long_datum {
	int32_t ids[TOKENS + 1];
	uint8_t supervised[TOKENS + 1];
	struct datum datum;
};

static void
make_long(struct long_datum *l, size_t vocabulary)
{
	uint64_t random = 9;

	l->datum = (struct datum){.id = "long",
	    .length = TOKENS + 1,
	    .supervised_count = TOKENS + 1,
	    .ids = l->ids,
	    .supervised = l->supervised};
	for (size_t i = 0; i <= TOKENS; i++) {
		l->ids[i] = (int32_t)((tiny_uniform(&random) + 1) / 2 * (double)vocabulary);
		l->supervised[i] = 1;
	}
}

static void
open_shape(struct fixture *f, const struct shape_case *s, enum op_dtype compute, int threads)
{
	const struct op_options options = {.compute = compute, .threads = threads};
	struct refusal r = {0};

	memset(f, 0, sizeof(*f));
	f->tiny = (struct tiny_model){.layers = s->layers,
	    .width = s->width,
	    .heads = s->heads,
	    .kv_heads = s->kv_heads,
	    .head_dim = s->head_dim,
	    .mlp_width = s->mlp_width,
	    .vocabulary = s->vocabulary,
	    .biases = s->tied,
	    .tied = s->tied};
	tiny_model_write(&f->tiny, 3);
	if (op_open(&f->ops, &options) != OP_OK ||
	    model_files_open(&f->files, f->tiny.path, &r) != 0)
		abort();
}

/* Opens, trains one step on the long datum and compares what is allocated then with the plan.
   limit 0: none. Returns the plan. */
static struct memory_plan
check_shape(const struct shape_case *s, enum op_dtype compute, double dropout, size_t micro_batch,
    size_t limit)
{
	const size_t closed = in_use();
	size_t before;
	struct trainer_options o = plain;
	struct trainer_result result;
	struct long_datum l;
	const struct datum *list[] = {&l.datum};
	struct memory_plan plan;
	struct refusal r = {0};
	struct fixture f;
	double held;

	o.rank = s->rank;
	o.dropout = dropout;
	o.datum_tokens = TOKENS;
	o.micro_batch = micro_batch;
	o.memory_limit = o.device_limit = limit;
	open_shape(&f, s, compute, 2);
	before = in_use();
	open_trainer(&f, &o);
	make_long(&l, s->vocabulary);
	plan = f.t->plan;
	CHECK_MSG(trainer_step(f.t, list, 1, 1e-3, &result, &r) == 0, "%s", r.text);
	if (plan.micro_batch <= TOKENS)
		CHECK(f.t->work.acts.shape.recompute == plan.recompute);
	held = (double)(in_use() - before);
	CHECK_MSG(fabs(held / (double)plan.total - 1) < 0.05,
	    "width %zu, %s, dropout %g, limit %zu: planned %zu (%zu %zu %zu), allocated %.0f",
	    s->width, compute == OP_F32 ? "f32" : "bf16", dropout, limit, plan.total, plan.weights,
	    plan.activations, plan.scratch, held);
	if (limit != 0)
		CHECK_MSG(held < (double)limit * 1.02, "%.0f of %zu", held, limit);
	teardown(&f);
	CHECK(in_use() == closed);
	return plan;
}

/* With every layer kept, and with one more recomputed until all are. */
static void
check_layers(const struct shape_case *s, enum op_dtype compute, double dropout)
{
	struct memory_plan plan = check_shape(s, compute, dropout, 1, 0);

	CHECK(plan.recompute == 0);
	for (size_t n = 2; n <= s->layers; n++) {
		plan = check_shape(s, compute, dropout, 1, plan.total - 1);
		CHECK_MSG(plan.recompute == n, "%zu, not %zu", plan.recompute, n);
	}
}

/* Split by few tokens, which the longest datum exceeds, by more than that, and by what is chosen.
 */
TEST(the_plan_is_what_is_allocated)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int c = 0; c < 4; c++) {
			const enum op_dtype compute = c % 2 == 0 ? OP_F32 : OP_BF16;
			const double dropout = c < 2 ? 0 : 0.3;

			check_layers(&shapes[i], compute, dropout);
			check_shape(&shapes[i], compute, dropout, 3 * TOKENS, 0);
			check_shape(&shapes[i], compute, dropout, 0, 0);
		}
}

/* The bytes that a session needs at least that splits by so many tokens, as its refusal tells. */
static size_t
need_of_split(const struct shape_case *s, size_t micro_batch, size_t limit)
{
	struct trainer_options o = plain;
	struct refusal r = {0};
	struct fixture f;
	size_t need = 0;

	o.rank = s->rank;
	o.datum_tokens = TOKENS;
	o.micro_batch = micro_batch;
	o.memory_limit = o.device_limit = limit;
	open_shape(&f, s, OP_BF16, 2);
	CHECK(trainer_open(&f.t, f.ops, f.files, &o, &r) == -1 && r.status == 507);
	CHECK(sscanf(r.text, "the session needs %zu bytes", &need) == 1);
	CHECK_MSG(strstr(r.text, ": the session began with micro-batches of that size") != NULL,
	    "%s", r.text);
	teardown(&f);
	return need;
}

/* A session that comes back splits as it did, with the least that this takes, or not at all. */
TEST(the_split_is_kept)
{
	const struct shape_case *s = &shapes[1];
	const size_t split = 2 * TOKENS;
	const struct memory_plan chosen = check_shape(s, OP_BF16, 0, 0, 0);
	const struct memory_plan kept = check_shape(s, OP_BF16, 0, split, 0);
	const size_t need = need_of_split(s, split, 1);
	const struct memory_plan back = check_shape(s, OP_BF16, 0, split, need);

	CHECK(kept.micro_batch == split && chosen.micro_batch > split);
	CHECK_MSG(back.micro_batch == split, "%zu", back.micro_batch);
	CHECK(need_of_split(s, split, need - 1) == need);
}

/* What two steps leave: loss, gradients, parameters. */
struct outcome {
	double loss;
	float *grad, *param;
	size_t bytes;
	size_t recompute; /* layers of the last micro-batch */
};

/* The memory in which the largest micro-batch fits if so many of its layers are recomputed: all
   datums, or the longest alone. */
static size_t
least(struct fixture *f, size_t layers)
{
	struct workspace *w = &f->t->work;
	const struct model_config *config = f->t->model->config;
	struct activations_shape shape = trainer_shape(f->t, true);
	size_t scratch;

	shape.backward = true;
	shape.recompute = layers;
	shape.dropout = f->t->options.dropout != 0;
	for (size_t i = 0; i < DATUMS; i++) {
		if (f->t->options.micro_batch == 1 && f->datums[i].length != LONGEST)
			continue;
		shape.tokens += batch_datum_tokens(&f->datums[i]);
		shape.rows += batch_datum_rows(&f->datums[i]);
	}
	scratch = memory_scratch(&w->backend, config, &shape);
	if (scratch < w->scratch)
		scratch = w->scratch;
	return activations_cut(&w->acts, config, &shape, NULL) + scratch;
}

static struct outcome
run(const struct trainer_options *o, enum op_dtype compute, size_t recompute)
{
	struct outcome out = {0};
	struct tiny_model deep = tiny_default;
	struct fixture f;
	struct refusal r;

	deep.layers = DEEP;
	setup_model(&f, &deep, compute, o);
	out.bytes = trainer_adapter(f.t)->size * sizeof(float);
	free(random_adapter(&f));
	out.grad = malloc(out.bytes);
	out.param = malloc(out.bytes);
	if (recompute != 0)
		f.t->work.pass_most = least(&f, recompute);
	step(&f, 1e-2);
	out.loss = step(&f, 1e-2).loss;
	out.recompute = f.t->work.acts.shape.recompute;
	trainer_get_gradient(f.t, out.grad, &r);
	trainer_get(f.t, out.param, NULL, NULL, &r);
	teardown(&f);
	return out;
}

static void
drop(struct outcome *o)
{
	free(o->grad);
	free(o->param);
}

/* Some layers and all of them; all datums at once, and one by one, where the longest has to be
   recomputed so far and a shorter one less. */
TEST(recomputed_layers_give_the_same_bits)
{
	for (int i = 0; i < 8; i++) {
		const enum op_dtype compute = i % 2 == 0 ? OP_F32 : OP_BF16;
		struct trainer_options o = plain;
		struct outcome kept, again;

		o.dropout = i / 2 % 2 == 0 ? 0 : 0.4;
		o.micro_batch = i < 4 ? 0 : 1;
		kept = run(&o, compute, 0);
		CHECK(kept.recompute == 0);
		for (size_t n = 2; n <= DEEP; n++) {
			again = run(&o, compute, n);
			CHECK(i < 4 ? again.recompute == n : again.recompute <= n);
			CHECK_MSG(
			    kept.loss == again.loss, "%d: %.17g, %.17g", i, kept.loss, again.loss);
			CHECK(memcmp(kept.grad, again.grad, kept.bytes) == 0);
			CHECK(memcmp(kept.param, again.param, kept.bytes) == 0);
			drop(&again);
		}
		drop(&kept);
	}
}

TEST(what_does_not_fit_is_refused_before_it_is_loaded)
{
	struct trainer_options o = plain;
	struct refusal r = {0};
	struct trainer *t;
	struct fixture f;
	size_t before;

	if (on_device())
		return;
	setup(&f, OP_F32, &o);
	before = in_use();
	o.datum_tokens = 100000;
	o.memory_limit = 1 << 20;
	CHECK(trainer_open(&t, f.ops, f.files, &o, &r) == -1 && t == NULL && r.status == 507);
	CHECK_MSG(
	    strstr(r.text, "the largest maximum_datum_tokens that fits") != NULL, "%s", r.text);
	CHECK(in_use() == before);
	teardown(&f);
}

TEST_MAIN(TEST_CASE(the_plan_is_what_is_allocated), TEST_CASE(the_split_is_kept),
    TEST_CASE(recomputed_layers_give_the_same_bits),
    TEST_CASE(what_does_not_fit_is_refused_before_it_is_loaded))
