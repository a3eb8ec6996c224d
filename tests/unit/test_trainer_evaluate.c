/* Looking without training: evaluation, scores and generation. */
#include "tests/unit/trainer_fixture.h"
#include "worker/train/evaluate.h"
#include "worker/train/generate.h"

/* The mean over 2 + 18 + 0 + 3 rows is the mean that the scores give; packed is as alone. */
TEST(loss_is_the_mean_of_scores)
{
	double together[DATUMS], alone, logp[3 + 18 + 3], sum = 0, single = 0;
	struct trainer_evaluation e;
	struct refusal r;
	struct fixture f;

	setup(&f, OP_F32, &plain);
	free(random_adapter(&f));
	CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, together, logp, &e, &r) == 0);
	CHECK(e.input_tokens == 7 + 19 + 1 + 12 && e.supervised_tokens == 3 + 19 + 1 + 3);
	for (size_t i = 0; i < DATUMS; i++) {
		sum += together[i];
		if (i == 2) /* which has no row: a request of it alone is none */
			continue;
		CHECK(trainer_evaluate(f.t, &f.list[i], 1, true, &alone, NULL, &e, &r) == 0);
		CHECK_MSG(fabs(alone - together[i]) <= 1e-6 * fabs(alone), "%.9g %.9g", alone,
		    together[i]);
	}
	for (size_t i = 0; i < 3 + 18 + 3; i++)
		single += logp[i];
	CHECK(together[2] == 0 && fabs(single - sum) < 1e-12 * fabs(sum));
	CHECK(fabs(step(&f, 1e-3).loss + sum / (3 + 18 + 3)) < 1e-6);
	teardown(&f);
}

/* log p from the logits, in double, is what the scores say; the adapter can be off. */
TEST(scores_are_those_of_the_logits)
{
	const size_t V = tiny_default.vocabulary;
	struct trainer_evaluation e;
	struct refusal r;
	struct fixture f;
	float *logits;

	setup(&f, OP_F32, &plain);
	free(random_adapter(&f));
	logits = malloc(LONGEST * V * sizeof(*logits));
	for (int on = 0; on < 2; on++) {
		double sum = 0, score;

		CHECK(trainer_logits(f.t, f.ids[1], LONGEST, on, logits, &r) == 0);
		for (size_t t = 1; t < LONGEST; t++) {
			const float *row = logits + (t - 1) * V;
			double total = 0;

			for (size_t v = 0; v < V; v++)
				total += exp(row[v]);
			sum += row[f.ids[1][t]] - log(total);
		}
		CHECK(trainer_evaluate(f.t, &f.list[1], 1, on, &score, NULL, &e, &r) == 0);
		CHECK_MSG(fabs(sum - score) < 1e-5, "%.9g %.9g", sum, score);
	}
	free(logits);
	teardown(&f);
}

/* Adapter, moments and step, to be compared bit for bit. */
struct snapshot {
	uint64_t step;
	size_t size;
	float *values; /* (3, size) */
};

static struct snapshot
take_snapshot(const struct fixture *f)
{
	struct snapshot s = {trainer_step_count(f->t), trainer_adapter(f->t)->size, NULL};
	struct refusal r;

	s.values = malloc(3 * s.size * sizeof(float));
	CHECK(trainer_get(f->t, s.values, s.values + s.size, s.values + 2 * s.size, &r) == 0);
	return s;
}

static void
check_unchanged(const struct fixture *f, struct snapshot *before)
{
	struct snapshot now = take_snapshot(f);

	CHECK(now.step == before->step);
	CHECK(memcmp(now.values, before->values, 3 * now.size * sizeof(float)) == 0);
	free(now.values);
	free(before->values);
}

/* Five datums, one of them twice and one without a row, in micro-batches of `tokens`. */
static void
check_next_loss(enum op_dtype compute, size_t tokens)
{
	struct trainer_options o = plain;
	const struct datum *list[5];
	struct trainer_result result = {0};
	struct trainer_evaluation e = {0}, base = {0};
	double sums[5];
	struct refusal r = {0};
	struct fixture f;

	o.micro_batch = tokens;
	setup(&f, compute, &o);
	free(random_adapter(&f));
	memcpy(list, f.list, sizeof(f.list));
	list[4] = list[1];
	for (int i = 0; i < 3; i++) {
		struct snapshot before = take_snapshot(&f);

		CHECK(trainer_evaluate(f.t, list, 5, false, sums, NULL, &base, &r) == 0);
		CHECK(trainer_evaluate(f.t, list, 5, true, sums, NULL, &e, &r) == 0);
		check_unchanged(&f, &before);
		CHECK(trainer_step(f.t, list, 5, 1e-2, &result, &r) == 0);
		CHECK_MSG(memcmp(&e.loss, &result.loss, sizeof(double)) == 0, "%.17g, step %.17g",
		    e.loss, result.loss);
		CHECK(e.loss != base.loss);
		CHECK(e.input_tokens == result.input_tokens);
		CHECK(e.supervised_tokens == result.supervised_tokens);
	}
	teardown(&f);
}

TEST(evaluation_is_the_next_steps_loss_to_the_bit)
{
	static const size_t tokens[] = {0, 1, 12, 30};

	for (size_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++) {
		check_next_loss(OP_F32, tokens[i]);
		check_next_loss(OP_BF16, tokens[i]);
	}
}

/* A session with dropout is looked at without it, and its masks go on as they would have. */
TEST(evaluation_has_no_dropout)
{
	struct trainer_options o = plain;
	double sums[DATUMS], loss[2];
	struct trainer_evaluation e[3];
	struct refusal r = {0};
	struct fixture f;
	float *param;

	for (int with = 0; with < 2; with++) {
		o.dropout = with ? 0.5 : 0;
		setup(&f, OP_F32, &o);
		param = random_adapter(&f);
		CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, sums, NULL, &e[with], &r) == 0);
		loss[with] = step(&f, 1e-30).loss;
		trainer_set(f.t, param, NULL, NULL, &r);
		trainer_set_step_count(f.t, 0);
		CHECK(step(&f, 1e-30).loss == loss[with]);
		free(param);
		teardown(&f);
	}
	CHECK(e[0].loss == e[1].loss && e[0].loss == loss[0]);
	CHECK(fabs(loss[1] - loss[0]) > 1e-4);
}

/* B = 0: the adapter says nothing yet, to the bit, however the request is split. */
TEST(a_fresh_adapter_is_the_base_model)
{
	for (int i = 0; i < 4; i++) {
		struct trainer_options o = plain;
		double on[DATUMS], off[DATUMS];
		struct trainer_evaluation e, base;
		struct refusal r = {0};
		struct fixture f;

		o.micro_batch = i % 2 == 0 ? 0 : 1;
		setup(&f, i < 2 ? OP_F32 : OP_BF16, &o);
		CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, on, NULL, &e, &r) == 0);
		CHECK(trainer_evaluate(f.t, f.list, DATUMS, false, off, NULL, &base, &r) == 0);
		CHECK(e.loss == base.loss && memcmp(on, off, sizeof(on)) == 0);
		teardown(&f);
	}
}

TEST(evaluation_names_the_datum_that_is_not_finite)
{
	double sums[DATUMS];
	struct trainer_evaluation e;
	struct refusal r = {0};
	struct fixture f;
	char want[300];
	float *param;

	setup(&f, OP_F32, &plain);
	strcpy(f.datums[0].id, "first");
	strcpy(f.datums[3].id, "last");
	param = random_adapter(&f);
	param[trainer_adapter(f.t)->tensors[1].offset] = INFINITY;
	trainer_set(f.t, param, NULL, NULL, &r);
	CHECK(trainer_evaluate(f.t, f.list, DATUMS, true, sums, NULL, &e, &r) == -1);
	snprintf(want, sizeof(want),
	    "the loss of datum first is not finite (nan): %s is not finite",
	    trainer_adapter(f.t)->tensors[1].key);
	CHECK(r.status == 422);
	CHECK_MSG(strcmp(r.text, want) == 0 || strstr(r.text, "(-nan)") != NULL, "%s", r.text);
	CHECK(trainer_evaluate(f.t, f.list, DATUMS, false, sums, NULL, &e, &r) == 0);
	CHECK(trainer_evaluate(f.t, &f.list[2], 1, false, sums, NULL, &e, &r) == -1);
	CHECK_STR(r.text, "no supervised token of the batch has a token before it");
	free(param);
	teardown(&f);
}

/* Over the cache the text is the one that whole passes give. */
TEST(generation_is_greedy)
{
	enum { NEW = 20 };
	const size_t V = tiny_default.vocabulary;
	struct generate_options o = {.maximum = NEW, .adapter = true};
	int32_t text[LONGEST + NEW], out[NEW];
	struct refusal r = {0};
	struct fixture f;
	size_t count = 0;
	float *logits;

	setup(&f, OP_F32, &plain);
	free(random_adapter(&f));
	logits = malloc((LONGEST + NEW) * V * sizeof(*logits));
	memcpy(text, f.ids[1], sizeof(f.ids[1]));
	CHECK_MSG(trainer_generate(f.t, text, LONGEST, &o, out, &count, &r) == 0, "%s", r.text);
	CHECK(count == NEW);
	for (size_t i = 0; i < NEW; i++) {
		const float *row = logits + (LONGEST + i - 1) * V;
		size_t best = 0;

		CHECK(trainer_logits(f.t, text, LONGEST + i, true, logits, &r) == 0);
		for (size_t v = 1; v < V; v++)
			best = row[v] > row[best] ? v : best;
		CHECK_MSG(out[i] == (int32_t)best, "%zu: %d, not %zu", i, out[i], best);
		text[LONGEST + i] = (int32_t)best;
	}
	o.stop = &out[3];
	o.stop_count = 1;
	CHECK(trainer_generate(f.t, text, LONGEST, &o, out, &count, &r) == 0 && count <= 4);
	o.maximum = 200;
	CHECK(trainer_generate(f.t, text, LONGEST, &o, out, &count, &r) == -1 && r.status == 422);
	free(logits);
	teardown(&f);
}

TEST_MAIN(TEST_CASE(loss_is_the_mean_of_scores), TEST_CASE(scores_are_those_of_the_logits),
    TEST_CASE(evaluation_is_the_next_steps_loss_to_the_bit), TEST_CASE(evaluation_has_no_dropout),
    TEST_CASE(a_fresh_adapter_is_the_base_model),
    TEST_CASE(evaluation_names_the_datum_that_is_not_finite), TEST_CASE(generation_is_greedy))
