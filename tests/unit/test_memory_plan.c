/* The plan of a session's memory: against what the backend allocates, and for real models. Linked
   with CUDA's ops, emulated or not, it asks the device. */
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

/* A decoder of no file: sizes as published. The frequencies are not looked at. */
static struct model_config
decoder(size_t layers, size_t width, size_t heads, size_t kv_heads, size_t head_dim,
    size_t mlp_width, size_t vocabulary, bool tied)
{
	return (struct model_config){.family = "none",
	    .prefix = "model",
	    .vocabulary = vocabulary,
	    .width = width,
	    .heads = heads,
	    .kv_heads = kv_heads,
	    .head_dim = head_dim,
	    .mlp_width = mlp_width,
	    .layer_count = layers,
	    .layers = calloc(layers, sizeof(struct model_layer)),
	    .rope.half = head_dim / 2,
	    .tied_head = tied};
}

static struct memory_request
request_of(const struct model_config *c, size_t rank, size_t tokens)
{
	struct memory_request q = {
	    .config = c, .backend = {.threads = 1}, .rank = rank, .tokens = tokens};

	for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
		size_t outputs, inputs;

		model_linear_shape(c, i, &outputs, &inputs);
		q.adapter += c->layer_count * rank * (outputs + inputs);
	}
	return q;
}

TEST(a_refusal_names_need_free_and_what_fits)
{
	struct model_config c = decoder(30, 576, 9, 3, 64, 1536, 49152, true);
	struct memory_request q = request_of(&c, 8, 8192);
	struct memory_plan p;
	struct refusal r = {0};
	char want[400];
	size_t most;

	/* SmolLM2-135M has 134,515,008 parameters; with rank 8 on all linear layers 2,442,240. */
	CHECK(memory_plan_make(&p, &q, &r) == 0 && !p.recompute);
	CHECK_MSG(p.weights == 134515008u * 4 + 32 * 4, "%zu", p.weights);
	CHECK_MSG(p.adapter == 2442240u * 4, "%zu", p.adapter);
	CHECK_MSG(p.total > 6400000000u && p.total < 7200000000u, "%zu", p.total);
	q.limit = (size_t)2 << 30;
	CHECK(memory_plan_make(&p, &q, &r) == 0);
	CHECK_MSG(p.recompute && p.total < (size_t)2 << 30, "%zu", p.total);

	q.limit = (size_t)1 << 30;
	CHECK(memory_plan_make(&p, &q, &r) == -1 && r.status == 507);
	CHECK(sscanf(strrchr(r.text, ' '), " %zu", &most) == 1);
	snprintf(want, sizeof(want),
	    "the session needs %zu bytes (%zu of weights, %zu of adapter, gradients and moments, "
	    "%zu for a datum of 8192 tokens) and 1073741824 are free: the largest "
	    "maximum_datum_tokens that fits is %zu",
	    p.total, p.weights, 4 * p.adapter, p.activations + p.scratch, most);
	CHECK_STR(r.text, want);
	q.tokens = most;
	CHECK(memory_plan_make(&p, &q, &r) == 0 && p.total <= q.limit);
	q.tokens = most + 1;
	CHECK(memory_plan_make(&p, &q, &r) == -1);

	q.tokens = 0;
	q.limit = (size_t)500 << 20;
	CHECK(memory_plan_make(&p, &q, &r) == -1);
	CHECK_MSG(strstr(r.text, ": not even a datum of 1 token fits") != NULL, "%s", r.text);
	free(c.layers);
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

static void
print_plan(const char *name, const struct memory_plan *p)
{
	printf("%s: weights %zu, adapter %zu, gradients %zu, moments %zu, activations %zu, "
	       "scratch %zu, total %zu MB, %zu layers recomputed; micro-batch %zu tokens\n",
	    name, p->weights / 1000000, p->adapter / 1000000, p->gradients / 1000000,
	    p->moments / 1000000, p->activations / 1000000, p->scratch / 1000000,
	    p->total / 1000000, p->recompute, p->micro_batch);
}

/*
 * Qwen3.5-4B, rank 8, 4,096 tokens, bfloat16, in 24 GB: bounded from above, for its gated DeltaNet
 * layers are not in this code yet. Each of its 32 layers is taken to be attention with 32 heads and
 * 16 key/value heads of 256. That is more than either kind has: outputs 8192 + 2 * 4096 and inputs
 * of o 8192 against 8192 + 4096 + 64 and 4096 (DeltaNet) or 8192 + 2 * 1024 and 4096 (attention,
 * gate included); and keeps per token 2 * 8192 + 2 * 4096 against DeltaNet's in_proj 8192, the same
 * after the convolution, z 4096 and output 4096. On top come the states between chunks of one
 * layer: 32 * 128 * 128 floats for each 64 tokens, and again as much for their gradients.
 * The card keeps 1.5 GB for itself: driver, kernels, what a display takes.
 */
TEST(qwen3_5_4b_fits_24_gb)
{
	struct model_config c = decoder(32, 2560, 32, 16, 256, 9216, 248320, true);
	struct memory_request q = request_of(&c, 8, 4096);
	const size_t states = 2 * (4096 / 64) * (size_t)(32 * 128 * 128) * sizeof(float);
	struct memory_plan p;
	struct refusal r = {0};

	q.backend = (struct memory_backend){.cuda = true, .native_bf16 = true, .threads = 1};
	q.compute = OP_BF16;
	q.limit = 24000000000u - 1500000000u - states;
	CHECK_MSG(memory_plan_make(&p, &q, &r) == 0, "%s", r.text);
	print_plan("Qwen3.5-4B bf16, rank 8, 4,096 tokens, bound from above", &p);
	CHECK(p.weights > 8411502592u); /* 4,205,751,296 parameters, 2 bytes each */
	CHECK(p.total <= q.limit);
	free(c.layers);
}

/* Qwen2.5-0.5B, the largest vocabulary of its class: 494,032,768 parameters. */
TEST(half_a_billion_fits_8_gb)
{
	struct model_config c = decoder(24, 896, 14, 2, 64, 4864, 151936, true);
	struct memory_request q = request_of(&c, 8, 4096);
	struct memory_plan p;
	struct refusal r = {0};

	for (size_t l = 0; l < c.layer_count; l++)
		c.layers[l].qkv_bias = true;
	q.backend = (struct memory_backend){.cuda = true, .native_bf16 = true, .threads = 1};
	q.compute = OP_BF16;
	q.limit = 8000000000u - 1500000000u;
	CHECK_MSG(memory_plan_make(&p, &q, &r) == 0, "%s", r.text);
	print_plan("Qwen2.5-0.5B bf16, rank 8, 4,096 tokens", &p);
	/* 2 bytes each, norms and biases 4: 24 * (2 * 896 + 896 + 2 * 128) + 896 of those */
	CHECK(p.weights >= 494032768u * 2 + (24 * (3 * 896 + 256) + 896) * 2u);
	CHECK(p.weights < 494032768u * 2 + (24 * (3 * 896 + 256) + 896) * 2u + 24 * 12 * 64);
	free(c.layers);
}

TEST_MAIN(TEST_CASE(the_plan_is_what_is_allocated), TEST_CASE(the_split_is_kept),
    TEST_CASE(recomputed_layers_give_the_same_bits),
    TEST_CASE(a_refusal_names_need_free_and_what_fits),
    TEST_CASE(what_does_not_fit_is_refused_before_it_is_loaded), TEST_CASE(qwen3_5_4b_fits_24_gb),
    TEST_CASE(half_a_billion_fits_8_gb))
