/*
 * A case of the golden models on a trainer: its sequences as datums, its adapters, its steps, and
 * all tensors of the adapter compared with the stored ones.
 */
#ifndef TESTS_GOLDEN_MODELS_SESSION_H
#define TESTS_GOLDEN_MODELS_SESSION_H

#include "kernels/ops.h"
#include "tests/golden/models_check.h"
#include "worker/files/files.h"
#include "worker/train/evaluate.h"
#include "worker/train/step.h"
#include "worker/train/trainer.h"

enum { MAX_SEQUENCES = 64, MAX_STEPS = 32 };

struct golden_case {
	struct json_doc *doc, *expected_doc;
	struct json root, expected;
	struct tensors stored;
	struct datum datums[MAX_SEQUENCES];
	const struct datum *list[MAX_SEQUENCES];
	size_t count, tokens, rows;
	size_t steps;
	double learning_rate;
};

/* A model that was opened for a case. */
struct session {
	struct op_context *ops;
	struct model_files *files;
	struct trainer *t;
	const struct adapter *adapter;
	size_t vocabulary;
};

static inline struct datum
read_datum(struct json sequence)
{
	struct datum d = {0};
	size_t length, labels_length;
	int32_t *labels = read_ints(json_get(sequence, "labels"), &labels_length);

	d.ids = read_ints(json_get(sequence, "input_ids"), &length);
	if (length != labels_length)
		die("labels and input_ids differ in length");
	d.length = (uint32_t)length;
	d.supervised = get_memory(length);
	for (size_t i = 0; i < length; i++) {
		d.supervised[i] = labels[i] != -100;
		d.supervised_count += d.supervised[i];
		if (d.supervised[i] && labels[i] != d.ids[i])
			die("a label is not its token");
	}
	free(labels);
	return d;
}

static inline void
case_read(struct golden_case *c, const char *folder)
{
	memset(c, 0, sizeof(*c));
	c->doc = read_json(folder, "case.json");
	c->root = json_root(c->doc);
	c->expected_doc = read_json(folder, "expected.json");
	c->expected = json_root(c->expected_doc);
	c->stored = read_tensors(folder, "expected.safetensors");
	json_foreach (s, json_get(c->root, "sequences")) {
		if (c->count == MAX_SEQUENCES)
			die("too many sequences");
		c->datums[c->count] = read_datum(s);
		c->list[c->count] = &c->datums[c->count];
		c->tokens += c->datums[c->count].length;
		c->rows += batch_datum_rows(&c->datums[c->count]);
		c->count++;
	}
	c->steps = (size_t)number(c->root, "steps");
	c->learning_rate = number(c->root, "learning_rate");
	if (c->steps > MAX_STEPS)
		die("too many steps");
}

static inline void
case_free(struct golden_case *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->datums[i].ids);
		free(c->datums[i].supervised);
	}
	tensors_free(&c->stored);
	json_free(c->doc);
	json_free(c->expected_doc);
}

/* target_modules of a case, as the trainer takes them: joined by commas. */
static inline void
join_targets(struct json targets, char *out, size_t size)
{
	size_t at = 0;

	if (json_is(targets, JSON_STRING)) {
		snprintf(out, size, "%s", json_string(targets, NULL));
		return;
	}
	json_foreach (name, targets)
		at += (size_t)snprintf(out + at, at < size ? size - at : 0, "%s%s",
		    at == 0 ? "" : ",", json_string(name, NULL));
	if (at >= size)
		die("too many target_modules");
}

/* 0, or -1 with *r: a model that is not supported. */
static inline int
session_open_case(struct session *s, const struct golden_case *c, const char *model,
    enum op_dtype compute, struct refusal *r)
{
	const struct op_options options = {.compute = compute};
	struct json adamw = json_get(c->root, "adamw");
	char targets[1000];
	const struct trainer_options o = {
	    .rank = (size_t)number(c->root, "lora_rank"),
	    .alpha = number(c->root, "lora_alpha"),
	    .target_modules = targets,
	    .weight_decay = number(adamw, "weight_decay"),
	    .beta1 = number_at(json_get(adamw, "betas"), 0),
	    .beta2 = number_at(json_get(adamw, "betas"), 1),
	    .epsilon = number(adamw, "eps"),
	};

	memset(s, 0, sizeof(*s));
	join_targets(json_get(c->root, "target_modules"), targets, sizeof(targets));
	if (op_open(&s->ops, &options) != OP_OK)
		die("%s", op_last_error(NULL));
	if (model_files_open(&s->files, model, r) != 0 ||
	    trainer_open(&s->t, s->ops, s->files, &o, r) != 0)
		return -1;
	s->adapter = trainer_adapter(s->t);
	s->vocabulary = model_files_config(s->files)->vocabulary;
	return 0;
}

static inline void
session_close_case(struct session *s)
{
	trainer_free(s->t);
	model_files_free(s->files);
	op_close(s->ops);
}

/* Starts from an adapter: its values, no moments, step 0. */
static inline void
session_start(struct session *s, const float *param)
{
	float *zero = get_memory(s->adapter->size * sizeof(*zero));
	struct refusal r;

	if (trainer_set(s->t, param, zero, zero, &r) != 0)
		die("%s", r.text);
	trainer_set_step_count(s->t, 0);
	free(zero);
}

/* The adapter of a PEFT folder as a flat buffer; the caller frees it. */
static inline float *
read_adapter(struct tally *t, const struct session *s, const char *folder, const char *which)
{
	float *param = get_memory(s->adapter->size * sizeof(*param));
	char path[1024];
	struct tensors file;

	snprintf(path, sizeof(path), "%s/%s", folder, which);
	file = read_tensors(path, "adapter_model.safetensors");
	check(t, safetensors_count(file.index) == s->adapter->count,
	    "%s has %zu tensors, the model %zu", which, safetensors_count(file.index),
	    s->adapter->count);
	for (size_t i = 0; i < s->adapter->count; i++) {
		const struct adapter_tensor *a = &s->adapter->tensors[i];
		const float *values = find_floats(&file, a->key, a->rows * a->cols);

		if (values == NULL)
			check(t, false, "%s has no %s", which, a->key);
		else
			memcpy(param + a->offset, values, a->rows * a->cols * sizeof(*param));
	}
	tensors_free(&file);
	return param;
}

/* Distance of the flat buffer to the stored tensors `prefix`.<key>: all as one vector, and the
   worst single one. */
static inline double
compare_tensors(struct tally *t, const struct golden_case *c, const struct session *s,
    const float *flat, const char *prefix, double *worst)
{
	struct distance d = {0};

	*worst = 0;
	for (size_t i = 0; i < s->adapter->count; i++) {
		const struct adapter_tensor *a = &s->adapter->tensors[i];
		const size_t n = a->rows * a->cols;
		const float *want;
		char name[400];

		snprintf(name, sizeof(name), "%s.%s", prefix, a->key);
		want = find_floats(&c->stored, name, n);
		if (want == NULL)
			check(t, false, "no %s", name);
		else
			*worst = fmax(*worst, distance_add(&d, flat + a->offset, want, n));
	}
	return distance_of(&d);
}

/* What a run of the case's steps gives. Buffers are the caller's to free. */
struct run {
	double loss[MAX_STEPS], norm[MAX_STEPS], loss_after;
	float *grad, *after1, *after, *exp_avg, *exp_avg_sq;
	struct trainer_result first;
};

static inline double
mean_loss(struct session *s, const struct golden_case *c, bool adapter, double *sums)
{
	struct trainer_evaluation e;
	struct refusal r;

	if (trainer_evaluate(s->t, c->list, c->count, adapter, sums, NULL, &e, &r) != 0)
		die("%s", r.text);
	return e.loss;
}

static inline void
run_case(struct run *run, struct session *s, const struct golden_case *c, const float *param)
{
	const size_t bytes = s->adapter->size * sizeof(float);
	double sums[MAX_SEQUENCES];
	struct refusal r = {0};
	int failed = 0;

	run->grad = get_memory(bytes);
	run->after1 = get_memory(bytes);
	run->after = get_memory(bytes);
	run->exp_avg = get_memory(bytes);
	run->exp_avg_sq = get_memory(bytes);
	session_start(s, param);
	for (size_t i = 0; i < c->steps; i++) {
		struct trainer_result result;

		if (trainer_step(s->t, c->list, c->count, c->learning_rate, &result, &r) != 0)
			die("step %zu: %s", i + 1, r.text);
		run->loss[i] = result.loss;
		run->norm[i] = result.gradient_norm;
		if (i > 0)
			continue;
		run->first = result;
		failed |= trainer_get_gradient(s->t, run->grad, &r);
		failed |= trainer_get(s->t, run->after1, NULL, NULL, &r);
	}
	failed |= trainer_get(s->t, run->after, run->exp_avg, run->exp_avg_sq, &r);
	if (failed)
		die("%s", r.text);
	run->loss_after = mean_loss(s, c, true, sums);
}

static inline void
run_free(struct run *run)
{
	free(run->grad);
	free(run->after1);
	free(run->after);
	free(run->exp_avg);
	free(run->exp_avg_sq);
}

/* The curve of a run against the stored one. norm_limit 0: norms are not compared. */
static inline void
check_curve(struct tally *t, const struct run *run, const struct golden_case *c, const char *start,
    double loss_limit, double norm_limit)
{
	struct json want = json_get(c->expected, start);
	char what[64];

	for (size_t i = 0; i < c->steps; i++) {
		snprintf(what, sizeof(what), "%s, loss before step %zu", start, i + 1);
		check_relative(
		    t, what, run->loss[i], number_at(json_get(want, "loss"), i), loss_limit);
		if (norm_limit == 0)
			continue;
		snprintf(what, sizeof(what), "%s, gradient norm of step %zu", start, i + 1);
		check_relative(t, what, run->norm[i], number_at(json_get(want, "gradient_norm"), i),
		    norm_limit);
	}
	snprintf(what, sizeof(what), "%s, loss after all steps", start);
	check_relative(t, what, run->loss_after, number(want, "loss_after"), loss_limit);
}

/* PyTorch's own distance in bfloat16: the smaller of its two ways. */
static inline double
bfloat16_distance(const struct golden_case *c, const char *what)
{
	struct json bf16 = json_get(c->expected, "bfloat16");
	const double autocast =
	    number(json_get(json_get(bf16, "autocast"), "distance_to_float32"), what);
	const double plain = number(json_get(json_get(bf16, "plain"), "distance_to_float32"), what);

	return autocast < plain ? autocast : plain;
}

/* Logits of all sequences, (tokens, V); the caller frees them. */
static inline float *
all_logits(struct session *s, const struct golden_case *c, bool adapter)
{
	float *out = get_memory(c->tokens * s->vocabulary * sizeof(*out)), *next = out;
	struct refusal r;

	for (size_t i = 0; i < c->count; i++) {
		const struct datum *d = c->list[i];

		if (trainer_logits(s->t, d->ids, d->length, adapter, next, &r) != 0)
			die("%s", r.text);
		next += d->length * s->vocabulary;
	}
	return out;
}

#endif
