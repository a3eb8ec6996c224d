/*
 * The golden check of a real model: weights from a GGUF file, found by name below build/fetch,
 * adapters from a formula, values at chosen places, and greedy continuations.
 */
#ifndef TESTS_GOLDEN_MODELS_GGUF_H
#define TESTS_GOLDEN_MODELS_GGUF_H

#include <ftw.h>

#include <sodium.h>

#include "tests/golden/models_session.h"
#include "worker/train/generate.h"

static char gguf_path[1024];
static const char *gguf_name;

static inline int
visit_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	if (type != FTW_F || strcmp(path + at->base, gguf_name) != 0)
		return 0;
	snprintf(gguf_path, sizeof(gguf_path), "%s", path);
	return 1;
}

/* Path of the file below $STEPD_FETCH_DIR or build/fetch, or NULL. */
static inline const char *
find_gguf(const char *name)
{
	const char *top = getenv("STEPD_FETCH_DIR");

	gguf_name = name;
	return nftw(top != NULL ? top : "build/fetch", visit_file, 16, FTW_PHYS) == 1 ? gguf_path
										      : NULL;
}

static inline bool
digest_is(const void *data, size_t len, struct json hex)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char text[2 * sizeof(hash) + 1];

	crypto_hash_sha256(hash, data, len);
	sodium_bin2hex(text, sizeof(text), hash, sizeof(hash));
	return json_string_is(hex, text);
}

/* Every tensor, dequantized to float32, in Transformers' names and row order. */
static inline void
check_digests(struct tally *t, const struct session *s, struct json tensors)
{
	json_foreach (want, tensors) {
		struct json shape = json_get(want, "shape");
		const size_t dims = json_count(shape);
		const size_t rows = dims == 2 ? (size_t)number_at(shape, 0) : 1;
		const size_t cols = (size_t)number_at(shape, dims - 1);
		const char *name = json_key(want, NULL);
		float *data = get_memory(rows * cols * sizeof(*data));
		struct refusal r;

		if (model_files_read(s->files, name, data, OP_F32, rows, cols, &r) != 0)
			check(t, false, "%s: %s", name, r.text);
		else
			check(t,
			    digest_is(data, rows * cols * sizeof(*data), json_get(want, "sha256")),
			    "digest of %s", name);
		free(data);
	}
}

/* n values in [-1, 1): splitmix64 from FNV-1a of the name, xor seed. */
static inline void
formula(float *out, size_t n, const char *name, uint64_t seed, double divide)
{
	uint64_t state = 0xcbf29ce484222325u;

	for (const char *p = name; *p != '\0'; p++)
		state = (state ^ (unsigned char)*p) * 0x100000001b3u;
	state ^= seed;
	for (size_t i = 0; i < n; i++) {
		uint64_t z = state += 0x9e3779b97f4a7c15u;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		z ^= z >> 31;
		out[i] = (float)(((double)(z >> 40) / 0x1p23 - 1) / divide);
	}
}

static inline float *
formula_adapter(const struct session *s, uint64_t seed, bool fresh)
{
	float *param = get_memory(s->adapter->size * sizeof(*param));

	for (size_t i = 0; i < s->adapter->count; i++) {
		const struct adapter_tensor *a = &s->adapter->tensors[i];
		float *out = param + a->offset;

		if (i % 2 == 0)
			formula(out, a->rows * a->cols, a->key, seed, sqrt((double)a->cols));
		else if (!fresh)
			formula(out, a->rows * a->cols, a->key, seed, 50);
	}
	return param;
}

static inline int
by_key(const void *a, const void *b)
{
	return strcmp((*(const struct adapter_tensor *const *)a)->key,
	    (*(const struct adapter_tensor *const *)b)->key);
}

/* Digest over the adapter's tensors in the order of their names. */
static inline bool
adapter_digest_is(const struct session *s, const float *param, struct json hex)
{
	const size_t count = s->adapter->count;
	const struct adapter_tensor **sorted = get_memory(count * sizeof(const void *));
	float *joined = get_memory(s->adapter->size * sizeof(*joined));
	size_t at = 0;
	bool same;

	for (size_t i = 0; i < count; i++)
		sorted[i] = &s->adapter->tensors[i];
	qsort(sorted, count, sizeof(const void *), by_key);
	for (size_t i = 0; i < count; i++) {
		const size_t n = sorted[i]->rows * sorted[i]->cols;

		memcpy(joined + at, param + sorted[i]->offset, n * sizeof(*joined));
		at += n;
	}
	same = digest_is(joined, at * sizeof(*joined), hex);
	free(sorted);
	free(joined);
	return same;
}

/* One position's five largest logits, best first. */
static inline void
check_top5(struct tally *t, const char *key, size_t sequence, struct json want, const float *row,
    size_t vocabulary)
{
	float got[5], stored[5];
	struct distance d = {0};
	char what[64];
	bool same = true;

	for (size_t i = 0; i < 5; i++) {
		const size_t id = (size_t)number_at(json_get(want, "ids"), i);
		size_t larger = 0;

		got[i] = row[id];
		stored[i] = (float)number_at(json_get(want, "logits"), i);
		for (size_t v = 0; v < vocabulary; v++)
			larger += row[v] > row[id];
		same &= larger == i;
	}
	snprintf(what, sizeof(what), "%s of sequence %zu at %.0f", key, sequence,
	    number(want, "position"));
	check(t, same, "%s: ids", what);
	check_distance(t, what, distance_add(&d, got, stored, 5), 1e-5);
}

/* top5 of all sequences, and the stored row of logits of the last position. */
static inline void
check_places(struct tally *t, const struct session *s, const struct golden_case *c,
    const float *logits, bool adapter)
{
	const char *key = adapter ? "top5_adapter" : "top5_base";
	const char *name = adapter ? "logits.adapter" : "logits.base";
	const float *want = find_floats(&c->stored, name, s->vocabulary), *next = logits;
	struct distance d = {0};
	size_t i = 0;

	json_foreach (sequence, json_get(c->expected, "sequences")) {
		json_foreach (place, json_get(sequence, key))
			check_top5(t, key, i, place,
			    next + (size_t)number(place, "position") * s->vocabulary,
			    s->vocabulary);
		next += c->list[i++]->length * s->vocabulary;
	}
	if (want == NULL)
		die("no %s", name);
	check_distance(t, name, distance_add(&d, next - s->vocabulary, want, s->vocabulary), 1e-5);
}

/* log p of every supervised token, adapter off. */
static inline void
check_log_probs(struct tally *t, struct session *s, const struct golden_case *c)
{
	double *got = get_memory(c->rows * sizeof(*got)), sums[MAX_SEQUENCES];
	const double *next = got;
	struct trainer_evaluation e;
	struct refusal r;
	size_t i = 0;

	if (trainer_evaluate(s->t, c->list, c->count, false, sums, got, &e, &r) != 0)
		die("%s", r.text);
	json_foreach (sequence, json_get(c->expected, "sequences")) {
		struct json want = json_get(sequence, "log_probs_base");
		double difference = 0, norm = 0;
		char what[64];

		check(t, json_count(want) == batch_datum_rows(c->list[i]), "supervised tokens");
		json_foreach (v, want) {
			double x = 0;

			json_double(v, &x);
			difference += (*next - x) * (*next - x);
			norm += x * x;
			next++;
		}
		snprintf(what, sizeof(what), "log p of sequence %zu", i++);
		check_distance(t, what, sqrt(difference / norm), 2e-5);
	}
	free(got);
}

static inline void
check_log_prob_sums(
    struct tally *t, struct session *s, const struct golden_case *c, const char *start)
{
	struct json want = json_get(json_get(c->expected, start), "log_prob_sums");
	double sums[MAX_SEQUENCES];
	char what[64];

	mean_loss(s, c, true, sums);
	for (size_t i = 0; i < c->count; i++) {
		snprintf(what, sizeof(what), "%s, log p sum of sequence %zu", start, i);
		check_relative(t, what, sums[i], number_at(want, i), 2e-5);
	}
}

/* The norm of every tensor's gradient, and the gradients that are stored. */
static inline void
check_gradients(struct tally *t, const struct session *s, const struct golden_case *c,
    const float *grad, const char *start)
{
	struct json norms = json_get(json_get(c->expected, start), "gradient_norms");

	for (size_t i = 0; i < s->adapter->count; i++) {
		const struct adapter_tensor *a = &s->adapter->tensors[i];
		const size_t n = a->rows * a->cols;
		struct distance d = {0};
		const float *want;
		char what[400];
		double sum = 0;

		for (size_t j = 0; j < n; j++)
			sum += (double)grad[a->offset + j] * grad[a->offset + j];
		snprintf(what, sizeof(what), "%s, norm of the gradient of %s", start, a->key);
		check_relative(t, what, sqrt(sum), number(norms, a->key), 1e-4);
		snprintf(what, sizeof(what), "%s.grad.%s", start, a->key);
		want = find_floats(&c->stored, what, n);
		if (want != NULL)
			check_distance(t, what, distance_add(&d, grad + a->offset, want, n), 1e-4);
	}
}

static inline void
check_start(struct tally *t, struct session *s, const struct golden_case *c, const float *param,
    const char *start, struct run *run)
{
	session_start(s, param);
	check_log_prob_sums(t, s, c, start);
	run_case(run, s, c, param);
	check_gradients(t, s, c, run->grad, start);
	check_curve(t, run, c, start, 2e-5, 1e-4);
}

static inline void
check_prompts(struct tally *t, struct session *s, const struct golden_case *c)
{
	size_t i = 0;

	json_foreach (prompt, json_get(c->root, "prompts")) {
		size_t count, want_count, got_count;
		int32_t *ids = read_ints(json_get(prompt, "input_ids"), &count);
		int32_t *want = read_ints(json_get(prompt, "continuation"), &want_count);
		int32_t *got = get_memory(want_count * sizeof(*got));
		const struct generate_options o = {.maximum = want_count};
		struct refusal r;

		if (trainer_generate(s->t, ids, count, &o, got, &got_count, &r) != 0)
			die("%s", r.text);
		check(t,
		    got_count == want_count && memcmp(got, want, want_count * sizeof(*got)) == 0,
		    "continuation of prompt %zu", i++);
		free(ids);
		free(want);
		free(got);
	}
}

/* What float32 gave: bfloat16 is measured by its distance to that. */
struct gguf_values {
	float *logits, *grad;
};

static inline void
check_gguf_f32(struct tally *t, struct session *s, const struct golden_case *c, struct json digests,
    struct gguf_values *values)
{
	const uint64_t seed = (uint64_t)number(c->root, "adapter_seed");
	float *fresh = formula_adapter(s, seed, true), *adapter = formula_adapter(s, seed, false);
	struct json adapters = json_get(digests, "adapters");
	struct run run = {0};
	float *logits;

	check_digests(t, s, json_get(digests, "tensors"));
	check(t, adapter_digest_is(s, fresh, json_get(adapters, "fresh")), "digest of fresh");
	check(t, adapter_digest_is(s, adapter, json_get(adapters, "adapter")), "digest of adapter");
	session_start(s, adapter);
	logits = all_logits(s, c, false);
	check_places(t, s, c, logits, false);
	free(logits);
	values->logits = all_logits(s, c, true);
	check_places(t, s, c, values->logits, true);
	check_log_probs(t, s, c);
	check_prompts(t, s, c);
	check_start(t, s, c, fresh, "fresh", &run);
	run_free(&run);
	check_start(t, s, c, adapter, "adapter", &run);
	values->grad = run.grad;
	run.grad = NULL;
	run_free(&run);
	free(fresh);
	free(adapter);
}

static inline void
check_gguf_bf16(
    struct tally *t, struct session *s, const struct golden_case *c, const struct gguf_values *f32)
{
	float *adapter = formula_adapter(s, (uint64_t)number(c->root, "adapter_seed"), false);
	struct distance d = {0}, g = {0};
	struct run run = {0};
	float *logits;

	session_start(s, adapter);
	logits = all_logits(s, c, true);
	check_distance(t, "logits",
	    distance_add(&d, logits, f32->logits, c->tokens * s->vocabulary),
	    1.5 * bfloat16_distance(c, "logits"));
	free(logits);
	run_case(&run, s, c, adapter);
	check_distance(t, "gradients", distance_add(&g, run.grad, f32->grad, s->adapter->size),
	    1.5 * bfloat16_distance(c, "gradients"));
	check_curve(t, &run, c, "adapter", 0.02, 0);
	run_free(&run);
	free(adapter);
}

static inline void
check_gguf_folder(struct tally *t, const char *folder)
{
	struct json_doc *digests = read_json(folder, "digests.json");
	struct json file = json_get(json_root(digests), "gguf");
	const char *name = json_string(json_get(file, "file"), NULL), *path = find_gguf(name);
	struct gguf_values values = {0};
	struct golden_case c;
	struct refusal r;
	struct session s;

	case_read(&c, folder);
	for (int i = 0; i < 2; i++) {
		t->compute = i == 0 ? "f32" : "bf16";
		if (path == NULL) {
			check(t, false, "%s is not there: run tests/fetch.sh", name);
			break;
		}
		if (session_open_case(&s, &c, path, i == 0 ? OP_F32 : OP_BF16, &r) != 0)
			check(t, false, "not supported: %s", r.text);
		else if (i == 0)
			check_gguf_f32(t, &s, &c, json_root(digests), &values);
		else if (values.grad != NULL)
			check_gguf_bf16(t, &s, &c, &values);
		session_close_case(&s);
	}
	free(values.logits);
	free(values.grad);
	json_free(digests);
	case_free(&c);
}

#endif
