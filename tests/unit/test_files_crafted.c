/* Model folders with something missing, doubled or wrong, made for the test; and what is found of
   templates, special tokens and digests in them. */
#include "tests/unit/files_fixture.h"

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

TEST_MAIN(TEST_CASE(one_file), TEST_CASE(shards), TEST_CASE(texts), TEST_CASE(digest))
