/*
 * The state artifact: what is written comes back bit for bit, is what safetensors says it is, and
 * every field, tensor and byte that is missing, changed or doubled is refused by its name.
 */
#include <math.h>

#include "ipc/json_write.h"
#include "ipc/safetensors.h"
#include "worker/files/files.h"
#include "worker/train/adapter.h"
#include "worker/artifact/state.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

static struct refusal refusal;
static struct model_files *files;
static struct adapter adapter;
static float *values[3], *got[3]; /* param, exp_avg, exp_avg_sq */

static const char base_digest[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct state
example(void)
{
	return (struct state){.identity = {.base_model = "org/\"model\"",
				  .model_revision = "0123456789012345678901234567890123456789",
				  .base_sha256 = base_digest,
				  .rank = 2,
				  .alpha = 4,
				  .dropout = 0.1,
				  .seed = 4294967295,
				  .build = "1.2.3"},
	    .weight_decay = 0.01,
	    .beta1 = 0.9,
	    .beta2 = 0.999,
	    .epsilon = 1e-8,
	    .max_grad_norm = 0,
	    .compute = "bf16",
	    .step = 12,
	    .tokens_seen = 3456,
	    .rows_consumed = 78,
	    .loss = 1.0 / 3};
}

static void
set_up(void)
{
	CHECK(model_files_open(&files, "tests/data/golden/models/llama_gqa", &refusal) == 0);
	CHECK(adapter_init(&adapter, model_files_config(files), 2, 4, "q_proj,up_proj", &refusal) ==
	      0);
	for (size_t i = 0; i < 3; i++) {
		values[i] = calloc(adapter.size, sizeof(float));
		got[i] = calloc(adapter.size, sizeof(float));
		for (size_t j = 0; j < adapter.size; j++)
			values[i][j] = sinf((float)(j + 1) * 0.7f) + (i == 2 ? 1.0f : 0);
	}
}

static void
tear_down(void)
{
	for (size_t i = 0; i < 3; i++) {
		free(values[i]);
		free(got[i]);
	}
	adapter_fini(&adapter);
	model_files_free(files);
}

/* Checked without being taken, it is judged alike. */
static int
read_fd(int fd, const struct state *want, struct state_loaded *loaded)
{
	int result, checked = state_read(fd, want, &adapter, NULL, NULL, NULL, loaded, &refusal);
	struct refusal first = refusal;

	result = state_read(fd, want, &adapter, got[0], got[1], got[2], loaded, &refusal);
	CHECK(checked == result && (result == 0 || strcmp(first.text, refusal.text) == 0));
	close(fd);
	return result;
}

/* The bytes of a state; the caller frees. */
static struct bytes
written(const struct state *s)
{
	struct bytes b = {NULL, 0};
	struct artifact_sum sum;
	int fd = craft_fd("", 0);
	char hex[65];
	struct sha256 hash;

	CHECK(state_write(fd, s, &adapter, values[0], values[1], values[2], &sum, &refusal) == 0);
	b.len = (size_t)lseek(fd, 0, SEEK_END);
	b.data = malloc(b.len);
	CHECK(pread(fd, b.data, b.len, 0) == (ssize_t)b.len && b.len == sum.size);
	sha256_init(&hash);
	sha256_update(&hash, b.data, b.len);
	sha256_final_hex(&hash, hex);
	CHECK_STR(sum.sha256, hex);
	close(fd);
	return b;
}

TEST(round_trip)
{
	struct state s = example();
	struct state_loaded loaded;
	struct bytes b;

	set_up();
	b = written(&s);
	CHECK_MSG(read_fd(craft_fd(b.data, b.len), &s, &loaded) == 0, "%s", refusal.text);
	for (size_t i = 0; i < 3; i++)
		CHECK(memcmp(got[i], values[i], adapter.size * sizeof(float)) == 0);
	CHECK(loaded.step == 12 && loaded.tokens_seen == 3456 && loaded.rows_consumed == 78);
	CHECK(loaded.loss == 1.0 / 3);
	CHECK_STR(loaded.compute, "bf16");
	s.step = 99; /* not part of what must be equal */
	s.loss = 7;
	s.compute = "f32";
	s.identity.build = "other";
	CHECK(read_fd(craft_fd(b.data, b.len), &s, &loaded) == 0 && loaded.step == 12);
	bytes_free(&b);
	s = example();
	s.step = 0;
	s.loss = NAN;
	b = written(&s);
	CHECK(read_fd(craft_fd(b.data, b.len), &s, &loaded) == 0 && isnan(loaded.loss));
	bytes_free(&b);
	tear_down();
}

/* Read by the reader of safetensors: names, shapes, places. */
TEST(format)
{
	struct state s = example();
	const struct safetensors_tensor *t;
	struct safetensors *file;
	struct bytes b;
	char why[200], name[300];

	set_up();
	b = written(&s);
	CHECK(safetensors_open(&file, b.data, b.len, why, sizeof(why)) == 0);
	CHECK(safetensors_count(file) == 3 * adapter.count && adapter.count == 12);
	CHECK_STR(safetensors_metadata(file, "format"), "stepd-state/1");
	CHECK_STR(safetensors_metadata(file, "seed"), "4294967295");
	CHECK_STR(safetensors_metadata(file, "lora_dropout"), "0.10000000000000001");
	CHECK_STR(safetensors_metadata(file, "target_modules"), "q_proj,up_proj");
	CHECK_STR(safetensors_metadata(file, "base_model"), "org/\"model\"");
	snprintf(name, sizeof(name), "exp_avg.%s",
	    "base_model.model.model.layers.2.mlp.up_proj.lora_B.weight");
	t = safetensors_find(file, name);
	CHECK(t != NULL && t->dtype == SAFETENSORS_F32 && t->shape[0] == 176 && t->shape[1] == 2);
	for (size_t i = 0; t != NULL && i < adapter.count; i++)
		if (strcmp(adapter.tensors[i].key, name + 8) == 0)
			CHECK(memcmp(t->data, values[1] + adapter.tensors[i].offset, t->size) == 0);
	safetensors_free(file);
	bytes_free(&b);
	tear_down();
}

static void
refused(int result, const char *word)
{
	CHECK_MSG(result == -1 && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", result != 0 ? refusal.text : "taken", word);
}

/* What the session wants differs from the file in one thing. */
TEST(identity)
{
	struct state good = example(), s;
	struct state_loaded loaded;
	struct bytes b;

	set_up();
	b = written(&good);
#define DIFFERENT(field, value, word)                                                              \
	s = good;                                                                                  \
	s.field = value;                                                                           \
	refused(read_fd(craft_fd(b.data, b.len), &s, &loaded), word)
	DIFFERENT(identity.base_model, "org/other", "base_model");
	DIFFERENT(identity.model_revision, "", "model_revision");
	DIFFERENT(identity.base_sha256, "00", "base_sha256");
	DIFFERENT(identity.rank, 3, "lora_rank");
	DIFFERENT(identity.alpha, 8, "lora_alpha");
	DIFFERENT(identity.dropout, 0, "lora_dropout");
	DIFFERENT(identity.seed, 1, "seed");
	DIFFERENT(weight_decay, 0, "weight_decay");
	DIFFERENT(beta1, 0.91, "beta1");
	DIFFERENT(beta2, 0.99, "beta2");
	DIFFERENT(epsilon, 1e-6, "epsilon");
	DIFFERENT(max_grad_norm, 1, "max_grad_norm");
	adapter_fini(&adapter);
	CHECK(adapter_init(&adapter, model_files_config(files), 2, 4, "q_proj", &refusal) == 0);
	refused(read_fd(craft_fd(b.data, b.len), &good, &loaded), "target_modules");
	bytes_free(&b);
	tear_down();
}

/* The state again with metadata member `drop` left out, or its value replaced, or one added. */
static struct bytes
edited(const struct bytes *from, const char *drop, const char *value, const char *add)
{
	struct bytes b = {NULL, 0};
	struct json_writer w;
	struct json_doc *doc;
	uint64_t header;
	const char *text;
	size_t len;

	memcpy(&header, from->data, 8);
	CHECK(json_parse(&doc, from->data + 8, header, NULL) == 0);
	json_writer_init(&w);
	json_write_object(&w);
	json_foreach (item, json_root(doc)) {
		bool metadata = strcmp(json_key(item, NULL), "__metadata__") == 0;

		json_write_key(&w, json_key(item, NULL));
		json_write_object(&w);
		json_foreach (member, item) {
			const char *key = json_key(member, NULL);

			if (metadata && strcmp(key, drop) == 0 && value == NULL)
				continue;
			json_write_key(&w, key);
			if (metadata && strcmp(key, drop) == 0)
				json_write_string(&w, value);
			else if (json_is(member, JSON_STRING))
				json_write_string(&w, json_string(member, NULL));
			else {
				json_write_array(&w);
				json_foreach (number, member)
					json_write_raw(&w, json_number(number, NULL),
					    strlen(json_number(number, NULL)));
				json_write_array_end(&w);
			}
		}
		if (metadata && add != NULL)
			json_put_string(&w, add, "x");
		json_write_object_end(&w);
	}
	json_write_object_end(&w);
	text = json_writer_text(&w, &len);
	put_uint(&b, len, 8);
	put(&b, text, len);
	put(&b, from->data + 8 + header, from->len - 8 - header);
	json_writer_fini(&w);
	json_free(doc);
	return b;
}

TEST(fields)
{
	static const char *const names[] = {"format", "base_model", "model_revision", "base_sha256",
	    "lora_rank", "lora_alpha", "lora_dropout", "target_modules", "seed", "step", "rng",
	    "weight_decay", "beta1", "beta2", "epsilon", "max_grad_norm", "schedule",
	    "rows_consumed", "tokens_seen", "loss", "reference", "build", "compute"};
	static const struct {
		const char *name, *value;
	} wrong[] = {{"format", "stepd-state/2"}, {"lora_rank", "2.0"}, {"lora_rank", "+2"},
	    {"lora_alpha", "4x"}, {"lora_alpha", "0x4"}, {"lora_alpha", ""}, {"step", "-1"},
	    {"step", "99999999999999999999"}, {"step", "18446744073709551615"}, {"step", "1 "},
	    {"loss", "nan"}, {"loss", "inf"}, {"compute", "f16"}, {"rng", "other"},
	    {"schedule", "linear"}, {"reference", "adapter"}, {"tokens_seen", "many"},
	    {"rows_consumed", ""}};
	struct state s = example();
	struct state_loaded loaded;
	struct bytes b, e;

	set_up();
	b = written(&s);
	e = edited(&b, "", NULL, NULL); /* the editing itself changes nothing */
	CHECK_MSG(read_fd(craft_fd(e.data, e.len), &s, &loaded) == 0, "%s", refusal.text);
	bytes_free(&e);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char want[64];

		snprintf(want, sizeof(want), "has no %s in its", names[i]);
		e = edited(&b, names[i], NULL, NULL);
		refused(read_fd(craft_fd(e.data, e.len), &s, &loaded), want);
		bytes_free(&e);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		e = edited(&b, wrong[i].name, wrong[i].value, NULL);
		refused(read_fd(craft_fd(e.data, e.len), &s, &loaded), wrong[i].name);
		bytes_free(&e);
	}
	e = edited(&b, "", NULL, "surprise");
	refused(read_fd(craft_fd(e.data, e.len), &s, &loaded), "not known");
	bytes_free(&e);
	bytes_free(&b);
	tear_down();
}

/* Finds the bytes of a text in the header and writes another of the same length over them. */
static void
overwrite(struct bytes *b, const char *old, const char *text)
{
	unsigned char *at = memmem(b->data, b->len, old, strlen(old));

	CHECK(at != NULL && strlen(old) == strlen(text));
	if (at != NULL)
		memcpy(at, text, strlen(text));
}

TEST(tensors)
{
	const float bad[] = {NAN, INFINITY, -INFINITY, -1.0f};
	struct state s = example();
	struct state_loaded loaded;
	struct bytes b, whole;

	set_up();
	whole = written(&s);
	for (size_t i = 0; i < 4; i++) { /* the last value is one of exp_avg_sq */
		memcpy(whole.data + whole.len - 4, &bad[i], 4);
		refused(
		    read_fd(craft_fd(whole.data, whole.len), &s, &loaded), "exp_avg_sq.base_model");
	}
	bytes_free(&whole);
	whole = written(&s);
	b = (struct bytes){NULL, 0};
	put(&b, whole.data, whole.len);
	overwrite(&b, "exp_avg.base_model.model.model.layers.1.self_attn.q_proj.lora_A",
	    "exp_avg.base_model.model.model.layers.1.self_attn.r_proj.lora_A");
	refused(read_fd(craft_fd(b.data, b.len), &s, &loaded), "has no tensor exp_avg.base_model");
	bytes_free(&b);
	put(&b, whole.data, whole.len);
	overwrite(&b, "\"shape\":[2,64]", "\"shape\":[64,2]");
	refused(read_fd(craft_fd(b.data, b.len), &s, &loaded), "as 64 x 2, not as 2 x 64");
	bytes_free(&b);
	put(&b, whole.data, whole.len);
	overwrite(&b, "\"F32\"", "\"I32\"");
	refused(read_fd(craft_fd(b.data, b.len), &s, &loaded), "I32");
	bytes_free(&b);
	refused(read_fd(craft_fd("", 0), &s, &loaded), "empty");
	refused(
	    read_fd(craft_fd("garbage that is no artifact", 27), &s, &loaded), "cannot be read");
	for (size_t i = 1; i < whole.len; i += i < 3000 ? 61 : 997)
		refused(read_fd(craft_fd(whole.data, i), &s, &loaded), "the state");
	put(&whole, "x", 1);
	refused(read_fd(craft_fd(whole.data, whole.len), &s, &loaded), "no tensor");
	bytes_free(&whole);
	tear_down();
}

/* A refused state leaves the buffers alone; what is not finite is not written; a full disk is told.
 */
TEST(nothing_half)
{
	struct state s = example();
	struct artifact_sum sum;
	struct state_loaded loaded;
	struct bytes b;
	int full = open("/dev/full", O_WRONLY);
	float kept;

	set_up();
	b = written(&s);
	memset(got[0], 0x11, adapter.size * sizeof(float));
	kept = got[0][3];
	b.data[b.len - 1] = 0x7f; /* NaN at the very end */
	b.data[b.len - 2] = 0xff;
	refused(read_fd(craft_fd(b.data, b.len), &s, &loaded), "not finite");
	CHECK(memcmp(&got[0][3], &kept, 4) == 0);
	bytes_free(&b);
	CHECK(
	    state_write(full, &s, &adapter, values[0], values[1], values[2], &sum, &refusal) == -1);
	CHECK(refusal.status == 507 && strstr(refusal.text, "No space left") != NULL);
	values[1][adapter.size - 1] = NAN;
	CHECK(
	    state_write(full, &s, &adapter, values[0], values[1], values[2], &sum, &refusal) == -1);
	CHECK(refusal.status == 422 && strstr(refusal.text, "exp_avg.base_model") != NULL);
	close(full);
	tear_down();
}

TEST_MAIN(TEST_CASE(round_trip), TEST_CASE(format), TEST_CASE(identity), TEST_CASE(fields),
    TEST_CASE(tensors), TEST_CASE(nothing_half))
