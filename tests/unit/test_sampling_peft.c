/* Sampling artifacts of others: adapters that PEFT itself saved (in three types), and archives with
   a wrong configuration, wrong weights or members missing. */
#include <math.h>

#include "ipc/safetensors.h"
#include "tests/unit/sampling_fixture.h"
#include "worker/artifact/tar.h"
#include "kernels/dequant.h"

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

TEST_MAIN(TEST_CASE(saved_by_peft), TEST_CASE(configurations), TEST_CASE(weights))
