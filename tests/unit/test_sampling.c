/*
 * The sampling artifact: round trip, adapters that PEFT itself saved (in three types), and archives
 * with a wrong configuration, wrong weights or members missing.
 */
#include <math.h>

#include "ipc/safetensors.h"
#include "worker/files/dequant.h"
#include "worker/files/files.h"
#include "worker/train/adapter.h"
#include "worker/artifact/sampling.h"
#include "worker/artifact/tar.h"
#include "ipc/tar_read.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

#define GOLDEN "tests/data/golden/models/llama_gqa"

static struct refusal refusal;
static struct model_files *files;
static struct adapter adapter;
static struct artifact_identity identity;
static float *got;

/* llama_gqa's adapters have rank 4, alpha 8, and its folder's name as base model. */
static void
set_up(const char *targets)
{
	CHECK(model_files_open(&files, GOLDEN, &refusal) == 0);
	CHECK(adapter_init(&adapter, model_files_config(files), 4, 8, targets, &refusal) == 0);
	identity = (struct artifact_identity){.base_model = "llama_gqa",
	    .model_revision = "",
	    .base_sha256 = "ab",
	    .rank = 4,
	    .alpha = 8,
	    .seed = 3,
	    .build = "1"};
	got = calloc(adapter.size, sizeof(float));
}

static void
tear_down(void)
{
	free(got);
	adapter_fini(&adapter);
	model_files_free(files);
}

static struct bytes
file_bytes(const char *path)
{
	struct bytes b = {NULL, 0};
	char buffer[65536];
	FILE *f = fopen(path, "rb");
	size_t n;

	while (f != NULL && (n = fread(buffer, 1, sizeof(buffer), f)) != 0)
		put(&b, buffer, n);
	CHECK_MSG(f != NULL, "%s", path);
	if (f != NULL)
		fclose(f);
	return b;
}

/* An archive of these two members (NULL: left out), read by a session that wants `identity`. */
static int
read_archive(const void *config, size_t config_len, const struct bytes *weights)
{
	struct artifact_sink sink;
	struct artifact_sum sum;
	struct gzip_writer *gzip;
	struct refusal first;
	int fd = craft_fd("", 0), result, checked;

	if (artifact_sink_init(&sink, fd, &refusal) != 0)
		abort();
	gzip = gzip_writer_new(&sink);
	if (weights != NULL)
		tar_put_file(
		    gzip, "adapter/adapter_model.safetensors", weights->data, weights->len);
	tar_put_file(gzip, "adapter/other", "x", 1);
	if (config != NULL)
		tar_put_file(gzip, "adapter/adapter_config.json", config, config_len);
	tar_put_end(gzip);
	gzip_writer_finish(gzip);
	CHECK(artifact_sink_finish(&sink, &sum, &refusal) == 0);
	gzip_writer_free(gzip);
	artifact_sink_fini(&sink);
	/* checked without being taken, it is judged alike */
	checked = sampling_read(fd, &identity, &adapter, NULL, &refusal);
	first = refusal;
	result = sampling_read(fd, &identity, &adapter, got, &refusal);
	CHECK(checked == result && (result == 0 || strcmp(first.text, refusal.text) == 0));
	close(fd);
	return result;
}

static void
refused(int result, const char *word)
{
	CHECK_MSG(result == -1 && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", result != 0 ? refusal.text : "taken", word);
}

TEST(round_trip)
{
	struct sampling s;
	struct artifact_sum sum;
	float *param;
	int fd = craft_fd("", 0), full = open("/dev/full", O_WRONLY);

	set_up("all-linear");
	s = (struct sampling){.identity = identity, .step = 5, .loss = NAN};
	param = malloc(adapter.size * sizeof(float));
	for (size_t i = 0; i < adapter.size; i++)
		param[i] = sinf((float)i);
	CHECK(sampling_write(fd, &s, &adapter, param, files, NULL, &sum, &refusal) == 0);
	CHECK(sum.size == (uint64_t)lseek(fd, 0, SEEK_END) && strlen(sum.sha256) == 64);
	CHECK_MSG(sampling_read(fd, &identity, &adapter, got, &refusal) == 0, "%s", refusal.text);
	CHECK(memcmp(param, got, adapter.size * sizeof(float)) == 0);
	identity.seed = 99; /* of no meaning to an adapter */
	identity.dropout = 0.5;
	identity.base_sha256 = "other";
	CHECK(sampling_read(fd, &identity, &adapter, got, &refusal) == 0);
	identity.base_model = "other";
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "base_model");
	identity.base_model = "llama_gqa";
	identity.model_revision = "0123456789012345678901234567890123456789";
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "model_revision");
	identity.model_revision = "";
	identity.rank = 5;
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "match r:");
	identity.rank = 4;
	identity.alpha = 16;
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "lora_alpha");
	CHECK(sampling_write(full, &s, &adapter, param, files, NULL, &sum, &refusal) == -1);
	CHECK(refusal.status == 507 && strstr(refusal.text, "No space left") != NULL);
	param[adapter.size - 1] = INFINITY;
	CHECK(sampling_write(full, &s, &adapter, param, files, NULL, &sum, &refusal) == -1);
	CHECK(refusal.status == 422 && strstr(refusal.text, "not finite") != NULL);
	free(param);
	close(fd);
	close(full);
	tear_down();
}

/* Two modules of one layer only: the configuration names them by path. */
TEST(part_of_the_layers)
{
	struct sampling s;
	struct artifact_sum sum;
	struct bytes config = {NULL, 0};
	struct tar_member m;
	struct gzip_reader *gzip;
	struct tar_reader *tar;
	struct artifact_view view;
	float *param;
	int fd = craft_fd("", 0);

	set_up("layers.1.self_attn.q_proj,v_proj");
	s = (struct sampling){.identity = identity};
	param = calloc(adapter.size, sizeof(float));
	CHECK(sampling_write(fd, &s, &adapter, param, files, NULL, &sum, &refusal) == 0);
	CHECK(sampling_read(fd, &identity, &adapter, got, &refusal) == 0);
	CHECK(artifact_map(&view, fd, &refusal) == 0);
	gzip = gzip_reader_new(view.data, view.len, 1 << 30);
	tar = tar_reader_new(gzip);
	CHECK(tar_next(tar, &m, &refusal) == 1);
	CHECK_STR(m.name, "adapter/adapter_config.json");
	config.data = calloc(1, m.size + 1);
	CHECK(tar_read(tar, config.data, &refusal) == 0);
	CHECK(strstr((char *)config.data,
		  "\"target_modules\":[\"model.layers.1.self_attn.q_proj\",\"v_proj\"]") != NULL);
	bytes_free(&config);
	tar_reader_free(tar);
	gzip_reader_free(gzip);
	artifact_unmap(&view);
	free(param);
	close(fd);
	tear_down();
}

/* The weights again in another type: narrowed from the float32 that PEFT saved. */
static struct bytes
narrowed(const struct bytes *from, const char *dtype)
{
	struct bytes b = {NULL, 0}, data = {NULL, 0};
	struct safetensors *s;
	char why[200], *header = malloc(100000);
	size_t len = 1;
	const struct safetensors_tensor *t;

	strcpy(header, "{");
	CHECK(safetensors_open(&s, from->data, from->len, why, sizeof(why)) == 0);
	for (size_t i = safetensors_count(s); i-- != 0;) { /* another order, too */
		t = safetensors_at(s, i);
		len += (size_t)snprintf(header + len, 100000 - len,
		    "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}",
		    len != 1 ? "," : "", t->name, dtype, (int)t->shape[0], (int)t->shape[1],
		    data.len, data.len + 2 * (size_t)t->count);
		for (size_t j = 0; j < t->count; j++) {
			uint16_t half;
			float v;

			memcpy(&v, (const char *)t->data + 4 * j, 4);
			if (strcmp(dtype, "BF16") == 0) {
				dequant_round_bf16(&half, &v, 1);
			} else {
				uint32_t bits; /* normal numbers, cut: enough to compare */

				memcpy(&bits, &v, 4);
				half = (uint16_t)((bits >> 16 & 0x8000) |
						  (fabsf(v) < 1e-4f
							  ? 0
							  : ((bits >> 13) - (112 << 10)) & 0x7fff));
			}
			put(&data, &half, 2);
		}
	}
	strcpy(header + len, "}");
	b = craft_safetensors(header, data.data, data.len);
	bytes_free(&data);
	free(header);
	safetensors_free(s);
	return b;
}

TEST(saved_by_peft)
{
	struct bytes config = file_bytes(GOLDEN "/adapter/adapter_config.json");
	struct bytes weights = file_bytes(GOLDEN "/adapter/adapter_model.safetensors");
	struct safetensors *s;
	char why[200];
	float *exact;

	set_up("all-linear");
	CHECK_MSG(read_archive(config.data, config.len, &weights) == 0, "%s", refusal.text);
	CHECK(safetensors_open(&s, weights.data, weights.len, why, sizeof(why)) == 0);
	for (size_t i = 0; i < adapter.count; i++) {
		const struct safetensors_tensor *t = safetensors_find(s, adapter.tensors[i].key);

		CHECK(t != NULL && memcmp(t->data, got + adapter.tensors[i].offset, t->size) == 0);
	}
	safetensors_free(s);
	exact = malloc(adapter.size * sizeof(float));
	memcpy(exact, got, adapter.size * sizeof(float));
	for (int i = 0; i < 2; i++) {
		struct bytes half = narrowed(&weights, i == 0 ? "BF16" : "F16");
		double worst = 0;

		CHECK_MSG(read_archive(config.data, config.len, &half) == 0, "%s", refusal.text);
		for (size_t j = 0; j < adapter.size; j++)
			worst = fmax(worst, fabs(exact[j] - got[j]) / (fabs(exact[j]) + 0.01));
		CHECK_MSG(worst != 0 && worst < 0.01, "%g", worst);
		bytes_free(&half);
	}
	free(exact);
	bytes_free(&config);
	bytes_free(&weights);
	tear_down();
}

/* PEFT's own configuration with one member changed, put last: the last of two wins. */
static const struct {
	const char *member, *word; /* NULL: taken */
} members[] = {
    {"\"peft_version\":\"9.9\"", NULL},
    {"\"inference_mode\":false", NULL},
    {"\"task_type\":null", NULL},
    {"\"lora_alpha\":8.0", NULL},
    {"\"lora_dropout\":0.1", NULL},
    {"\"revision\":null", NULL},
    {"\"target_modules\":\"all-linear\"", NULL},
    {"\"target_modules\":[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\",\"up_proj\","
     "\"down_proj\",\"qkv\"]",
	NULL},
    {"\"init_lora_weights\":\"gaussian\"", NULL},
    {"\"exclude_modules\":\".*visual.*\"", NULL},
    {"\"a_future_key\":null", NULL},
    {"\"peft_type\":\"IA3\"", "peft_type"},
    {"\"peft_type\":null", "peft_type"},
    {"\"task_type\":\"SEQ_CLS\"", "task_type"},
    {"\"base_model_name_or_path\":null", "base_model"},
    {"\"base_model_name_or_path\":7", "base_model"},
    {"\"revision\":\"main\"", "model_revision"},
    {"\"r\":8", "match r:"},
    {"\"r\":\"4\"", "r is missing or no number"},
    {"\"r\":true", "r is missing or no number"},
    {"\"lora_alpha\":16", "lora_alpha"},
    {"\"lora_alpha\":NaN", "lora_alpha"},
    {"\"lora_dropout\":2", "lora_dropout"},
    {"\"lora_dropout\":\"0\"", "lora_dropout"},
    {"\"bias\":\"all\"", "bias"},
    {"\"bias\":null", "bias"},
    {"\"use_rslora\":true", "use_rslora"},
    {"\"use_dora\":true", "use_dora"},
    {"\"lora_bias\":true", "lora_bias"},
    {"\"fan_in_fan_out\":true", "fan_in_fan_out"},
    {"\"rank_pattern\":{\"q_proj\":8}", "rank_pattern"},
    {"\"alpha_pattern\":{\"q_proj\":8}", "alpha_pattern"},
    {"\"modules_to_save\":[\"lm_head\"]", "modules_to_save"},
    {"\"layer_replication\":[[0,2]]", "layer_replication"},
    {"\"trainable_token_indices\":[1]", "trainable_token_indices"},
    {"\"target_parameters\":[\"x\"]", "target_parameters"},
    {"\"use_qalora\":true", "use_qalora"},
    {"\"alora_invocation_tokens\":[1]", "alora_invocation_tokens"},
    {"\"arrow_config\":{\"a\":1}", "arrow_config"},
    {"\"loftq_config\":{\"loftq_bits\":4}", "loftq_config"},
    {"\"init_lora_weights\":\"pissa\"", "init_lora_weights"},
    {"\"init_lora_weights\":7", "init_lora_weights"},
    {"\"a_future_key\":\"on\"", "a_future_key"},
    {"\"target_modules\":[\"q_proj\"]", "target_modules leave out"},
    {"\"target_modules\":[\"proj\"]", "target_modules leave out"},
    {"\"target_modules\":[]", "target_modules"},
    {"\"target_modules\":[1]", "target_modules"},
    {"\"target_modules\":null", "target_modules"},
    {"\"target_modules\":{}", "target_modules"},
};

TEST(configurations)
{
	struct bytes config = file_bytes(GOLDEN "/adapter/adapter_config.json");
	struct bytes weights = file_bytes(GOLDEN "/adapter/adapter_model.safetensors");

	set_up("all-linear");
	while (config.data[config.len - 1] != '}')
		config.len--;
	config.len--;
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		struct bytes changed = {NULL, 0};
		int result;

		put(&changed, config.data, config.len);
		put(&changed, ",", 1);
		put(&changed, members[i].member, strlen(members[i].member));
		put(&changed, "}", 1);
		result = read_archive(changed.data, changed.len, &weights);
		if (members[i].word != NULL)
			refused(result, members[i].word);
		else
			CHECK_MSG(result == 0, "%s: %s", members[i].member, refusal.text);
		bytes_free(&changed);
	}
	refused(read_archive("{", 1, &weights), "not valid JSON");
	refused(read_archive("[]", 2, &weights), "no JSON object");
	refused(read_archive("", 0, &weights), "not valid JSON");
	refused(read_archive(NULL, 0, &weights), "has no adapter/adapter_config.json");
	bytes_free(&config);
	bytes_free(&weights);
	tear_down();
}

TEST(weights)
{
	struct bytes config = file_bytes(GOLDEN "/adapter/adapter_config.json");
	struct bytes good = file_bytes(GOLDEN "/adapter/adapter_model.safetensors"), b;
	unsigned char *at;
	float kept;

	set_up("all-linear");
	refused(read_archive(config.data, config.len, NULL), "has no adapter/adapter_model");
	b = (struct bytes){NULL, 0};
	for (int i = 0; i < 256; i++)
		put_uint(&b, (uint64_t)i, 1);
	refused(read_archive(config.data, config.len, &b), "adapter_model.safetensors");
	bytes_free(&b);
	put(&b, good.data, good.len - 4);
	refused(read_archive(config.data, config.len, &b), "adapter_model.safetensors");
	bytes_free(&b);
	put(&b, good.data, good.len);
	memcpy(&kept, got, 4);
	memcpy(b.data + b.len - 4, "\0\0\xc0\x7f", 4); /* NaN */
	refused(read_archive(config.data, config.len, &b), "not finite");
	CHECK(memcmp(&kept, got, 4) == 0);
	bytes_free(&b);
	put(&b, good.data, good.len);
	at = memmem(b.data, b.len, "layers.1.mlp.up_proj.lora_A", 27);
	memcpy(at, "layers.1.mlp.op_proj", 20);
	refused(read_archive(config.data, config.len, &b), "has no tensor base_model.model.model"
							   ".layers.1.mlp.up_proj.lora_A.weight");
	bytes_free(&b);
	put(&b, good.data, good.len);
	at = memmem(b.data, b.len, "\"shape\":[4,64]", 14);
	memcpy(at, "\"shape\":[64,4]", 14);
	refused(read_archive(config.data, config.len, &b), "as 64 x 4, not as 4 x 64");
	bytes_free(&b);
	tear_down();
	set_up("q_proj"); /* the file has more than this session adapts */
	refused(read_archive(config.data, config.len, &good), "does not adapt");
	tear_down();
	set_up("all-linear");
	put_zeros(&good, 40 << 20); /* too large before it is looked at */
	refused(read_archive(config.data, config.len, &good), "more than this adapter");
	bytes_free(&good);
	bytes_free(&config);
	tear_down();
}

TEST(no_archive)
{
	int fd;

	set_up("all-linear");
	fd = craft_fd("", 0);
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "empty");
	close(fd);
	fd = craft_fd("0123456789012345678901234567890123456789", 40);
	refused(sampling_read(fd, &identity, &adapter, got, &refusal), "not a gzip file");
	close(fd);
	tear_down();
}

TEST_MAIN(TEST_CASE(round_trip), TEST_CASE(part_of_the_layers), TEST_CASE(saved_by_peft),
    TEST_CASE(configurations), TEST_CASE(weights), TEST_CASE(no_archive))
