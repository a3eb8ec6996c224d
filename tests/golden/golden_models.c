/*
 * Models, gradients and AdamW against reference values: golden_models [-v] FOLDER. FOLDER has one
 * folder for each model, with case.json, expected.json and expected.safetensors as PyTorch,
 * Transformers and PEFT computed them; limits are a few times what PyTorch itself is away from
 * float64. A model that is not supported counts as failed and is named. A folder without
 * config.json has its weights in a GGUF file that tests/fetch.sh brings (models_gguf.h).
 */
#include <dirent.h>

#include "tests/golden/models_gguf.h"

/* Per-sequence sums and the mean. */
static void
check_scores(struct tally *t, struct session *s, const struct golden_case *c, bool adapter)
{
	const char *which = adapter ? "adapted" : "base";
	double sums[MAX_SEQUENCES], mean = mean_loss(s, c, adapter, sums);
	char what[96], key[32];
	size_t i = 0;

	snprintf(key, sizeof(key), "loss_%s", which);
	check_relative(t, key, mean, number(c->expected, key), 2e-5);
	snprintf(key, sizeof(key), "log_prob_sum_%s", which);
	json_foreach (sequence, json_get(c->expected, "sequences")) {
		snprintf(what, sizeof(what), "%s of sequence %zu", key, i);
		check_relative(t, what, sums[i], number(sequence, key), 2e-5);
		check(t, batch_datum_rows(c->list[i]) == (size_t)number(sequence, "supervised"),
		    "supervised tokens of sequence %zu", i);
		i++;
	}
	check(t, i == c->count, "sequences");
}

static void
check_logits(
    struct tally *t, struct session *s, const struct golden_case *c, bool adapter, double limit)
{
	const size_t n = c->tokens * s->vocabulary;
	const char *name = adapter ? "logits.adapted" : "logits.base";
	const float *want = find_floats(&c->stored, name, n);
	float *got = all_logits(s, c, adapter);
	struct distance d = {0};

	if (want == NULL)
		die("no %s", name);
	check_distance(t, name, distance_add(&d, got, want, n), limit);
	free(got);
}

static void
check_tensors(struct tally *t, const struct golden_case *c, const struct session *s,
    const float *flat, const char *prefix, double limit, double worst_limit)
{
	char what[64];
	double worst;

	check_distance(t, prefix, compare_tensors(t, c, s, flat, prefix, &worst), limit);
	if (worst_limit == 0)
		return;
	snprintf(what, sizeof(what), "%s, worst tensor", prefix);
	check_distance(t, what, worst, worst_limit);
}

static void
check_f32(struct tally *t, struct session *s, const struct golden_case *c, const char *folder)
{
	float *adapter = read_adapter(t, s, folder, "adapter");
	float *fresh = read_adapter(t, s, folder, "fresh");
	struct run run = {0};

	session_start(s, adapter);
	check_logits(t, s, c, false, 1e-5);
	check_logits(t, s, c, true, 1e-5);
	check_scores(t, s, c, false);
	check_scores(t, s, c, true);
	run_case(&run, s, c, adapter);
	check(t, run.first.input_tokens == (uint64_t)number(c->expected, "input_token_count"),
	    "input_token_count");
	check(t, run.first.supervised_tokens == (uint64_t)number(c->expected, "label_count"),
	    "label_count");
	check(t, c->rows == (size_t)number(c->expected, "supervised_token_count"),
	    "supervised_token_count");
	check_tensors(t, c, s, run.grad, "grad", 3e-5, 1e-4);
	check_tensors(t, c, s, run.after1, "after1", 1e-5, 0);
	check_tensors(t, c, s, run.after, "after10", 1e-5, 1e-4);
	check_tensors(t, c, s, run.exp_avg, "exp_avg", 1e-4, 0);
	check_tensors(t, c, s, run.exp_avg_sq, "exp_avg_sq", 1e-4, 0);
	check_curve(t, &run, c, "adapter", 2e-5, 1e-4);
	run_free(&run);
	run_case(&run, s, c, fresh);
	check_curve(t, &run, c, "fresh", 2e-5, 1e-4);
	run_free(&run);
	free(adapter);
	free(fresh);
}

static void
check_bf16(struct tally *t, struct session *s, const struct golden_case *c, const char *folder)
{
	float *adapter = read_adapter(t, s, folder, "adapter");
	struct run run = {0};

	session_start(s, adapter);
	check_logits(t, s, c, true, 1.5 * bfloat16_distance(c, "logits"));
	run_case(&run, s, c, adapter);
	check_tensors(t, c, s, run.grad, "grad", 1.5 * bfloat16_distance(c, "gradients"), 0);
	check_tensors(t, c, s, run.after, "after10", 1.5 * bfloat16_distance(c, "after10"), 0);
	check_curve(t, &run, c, "adapter", 0.02, 0);
	run_free(&run);
	free(adapter);
}

static void
check_folder(struct tally *t, const char *folder)
{
	static const enum op_dtype computes[] = {OP_F32, OP_BF16};
	struct golden_case c;
	struct refusal r;
	struct session s;

	case_read(&c, folder);
	for (int i = 0; i < 2; i++) {
		t->compute = i == 0 ? "f32" : "bf16";
		if (session_open_case(&s, &c, folder, computes[i], &r) != 0)
			check(t, false, "not supported: %s", r.text);
		else if (i == 0)
			check_f32(t, &s, &c, folder);
		else
			check_bf16(t, &s, &c, folder);
		session_close_case(&s);
	}
	case_free(&c);
}

/* One model's folder; any other folder is passed over. */
static void
check_model(struct tally *t, const char *folder, const char *name)
{
	if (!file_exists(folder, "case.json"))
		return;
	t->model = name;
	if (file_exists(folder, "config.json"))
		check_folder(t, folder);
	else
		check_gguf_folder(t, folder);
}

int
main(int argc, char **argv)
{
	struct tally t = {.verbose = argc > 2 && strcmp(argv[1], "-v") == 0};
	const char *top = argc > 1 ? argv[argc - 1] : "";
	struct dirent **entries;
	int count = argc > 1 ? scandir(top, &entries, NULL, alphasort) : -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count < 0)
		die("usage: golden_models [-v] FOLDER");
	check_model(&t, top, strrchr(top, '/') != NULL ? strrchr(top, '/') + 1 : top);
	for (int i = 0; i < count; i++) {
		char folder[800];

		snprintf(folder, sizeof(folder), "%s/%s", top, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			check_model(&t, folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	printf("%d passed, %d failed\n", t.passed, t.failed);
	return t.failed != 0 || t.passed == 0;
}
