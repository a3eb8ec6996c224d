#include "tests/unit/trainer_fixture.h"

struct values {
	float *all; /* param, exp_avg, exp_avg_sq */
	size_t n;
	uint64_t step;
};

static struct values
take_values(struct fixture *f)
{
	struct values v = {.n = trainer_adapter(f->t)->size, .step = trainer_step_count(f->t)};
	struct refusal r;

	v.all = malloc(3 * v.n * sizeof(float));
	CHECK(trainer_get(f->t, v.all, v.all + v.n, v.all + 2 * v.n, &r) == 0);
	return v;
}

static bool
same_values(const struct values *a, const struct values *b)
{
	return a->step == b->step && memcmp(a->all, b->all, 3 * a->n * sizeof(float)) == 0;
}

/* 3 + 3 steps with everything carried over to another trainer are 6 steps, bit for bit; without
   the moments they are not. */
TEST(resume)
{
	struct trainer_options o = plain;
	struct values whole, half, resumed, without;
	struct refusal r;
	struct fixture f;

	o.dropout = 0.2;
	o.max_grad_norm = 0.5;
	setup(&f, OP_F32, &o);
	for (int i = 0; i < 6; i++)
		step(&f, 1e-2);
	whole = take_values(&f);
	trainer_free(f.t);
	open_trainer(&f, &o);
	for (int i = 0; i < 3; i++)
		step(&f, 1e-2);
	half = take_values(&f);
	for (int with = 1; with >= 0; with--) {
		trainer_free(f.t);
		open_trainer(&f, &o);
		CHECK(trainer_set(f.t, half.all, with ? half.all + half.n : NULL,
			  with ? half.all + 2 * half.n : NULL, &r) == 0);
		trainer_set_step_count(f.t, half.step);
		for (int i = 0; i < 3; i++)
			step(&f, 1e-2);
		*(with ? &resumed : &without) = take_values(&f);
	}
	CHECK(whole.step == 6 && same_values(&whole, &resumed));
	CHECK(!same_values(&whole, &without));
	free(whole.all);
	free(half.all);
	free(resumed.all);
	free(without.all);
	teardown(&f);
}

/* Refuses the step and checks that nothing has changed. */
static void
check_refused(struct fixture *f, double learning_rate, const char *names)
{
	struct values before = take_values(f), after;
	struct trainer_result result;
	struct refusal r = {0};

	CHECK(trainer_step(f->t, f->list, DATUMS, learning_rate, &result, &r) == -1);
	CHECK_MSG(r.status == 422 && strstr(r.text, names) != NULL, "%u %s", r.status, r.text);
	after = take_values(f);
	CHECK(same_values(&before, &after));
	free(before.all);
	free(after.all);
}

TEST(guard_changes_nothing)
{
	struct trainer_options o = plain;
	struct refusal r;
	struct fixture f;
	float *param, kept;
	size_t at;

	setup(&f, OP_F32, &o);
	param = random_adapter(&f);
	step(&f, 1e-3);
	/* a weight that is not finite: the loss is not, and the tensor is named */
	const struct adapter_tensor *t = &trainer_adapter(f.t)->tensors[9];
	at = t->offset + 2;
	kept = param[at];
	param[at] = NAN;
	trainer_set(f.t, param, NULL, NULL, &r);
	check_refused(&f, 1e-3, t->key);
	/* huge values overflow in the first layer */
	param[at] = kept;
	for (size_t i = 0; i < trainer_adapter(f.t)->tensors[4].offset; i++)
		param[i] = 1e38f;
	trainer_set(f.t, param, NULL, NULL, &r);
	check_refused(&f, 1e-3, "the output of model.layers.0.self_attn");
	/* a finite loss with a gradient that is not: B = 0, A and alpha enormous */
	trainer_free(f.t);
	o.alpha = 3e9;
	open_trainer(&f, &o);
	for (size_t i = 0; i < trainer_adapter(f.t)->size; i++)
		param[i] = 0;
	t = &trainer_adapter(f.t)->tensors[12];
	for (size_t i = 0; i < t->rows * t->cols; i++)
		param[t->offset + i] = i % 2 == 0 ? 3e36f : -1e36f;
	trainer_set(f.t, param, NULL, NULL, &r);
	check_refused(&f, 1e-3, "model.layers.0.mlp.down_proj.lora_B.weight");
	/* what the request itself asks for */
	trainer_set(f.t, param, NULL, NULL, &r);
	check_refused(&f, NAN, "learning_rate");
	check_refused(&f, 1e39, "learning_rate");
	check_refused(&f, 0, "learning_rate");
	f.ids[1][4] = 37;
	check_refused(&f, 1e-3, "token 37");
	f.ids[1][4] = -1;
	check_refused(&f, 1e-3, "token -1");
	free(param);
	teardown(&f);
}

TEST(nothing_to_learn_is_refused)
{
	struct trainer_result result;
	struct refusal r;
	struct fixture f;

	setup(&f, OP_F32, &plain);
	CHECK(trainer_step(f.t, &f.list[2], 1, 1e-3, &result, &r) == -1 && r.status == 422);
	CHECK(trainer_step(f.t, f.list, 0, 1e-3, &result, &r) == -1 && r.status == 422);
	CHECK(trainer_step_count(f.t) == 0);
	teardown(&f);
}

/* The norm reported is the one before clipping; the update is of the clipped gradient. */
TEST(clipping)
{
	struct trainer_options o = plain;
	struct refusal r;
	struct fixture f;
	float *exp_avg, *grad;

	o.max_grad_norm = 1e-3;
	setup(&f, OP_F32, &o);
	const size_t n = trainer_adapter(f.t)->size;
	exp_avg = malloc(n * sizeof(float));
	grad = malloc(n * sizeof(float));
	free(random_adapter(&f));
	const double norm = step(&f, 1e-3).gradient_norm;
	CHECK(trainer_get(f.t, NULL, exp_avg, NULL, &r) == 0);
	CHECK(trainer_get_gradient(f.t, grad, &r) == 0);
	CHECK(norm > 0.01);
	for (size_t i = 0; i < n; i++)
		grad[i] = (float)(0.1 * grad[i] * 1e-3 / (norm + 1e-6));
	CHECK_MSG(distance(exp_avg, grad, n) < 1e-6, "%g", distance(exp_avg, grad, n));
	free(exp_avg);
	free(grad);
	teardown(&f);
}

/* After the largest micro-batch was seen, the workspace stays where it is. */
TEST(workspace_is_kept)
{
	struct trainer_result result;
	struct refusal r;
	struct fixture f;

	setup(&f, OP_F32, &plain);
	step(&f, 1e-3);
	const void *memory = f.t->work.memory, *ids = f.t->work.batch.ids;
	CHECK(trainer_step(f.t, &f.list[1], 1, 1e-3, &result, &r) == 0);
	step(&f, 1e-3);
	CHECK(f.t->work.memory == memory && f.t->work.batch.ids == ids);
	teardown(&f);
}

TEST_MAIN(TEST_CASE(resume), TEST_CASE(guard_changes_nothing),
    TEST_CASE(nothing_to_learn_is_refused), TEST_CASE(clipping), TEST_CASE(workspace_is_kept))
