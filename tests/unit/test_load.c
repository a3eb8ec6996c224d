/* Weights on the device are those of the files, to the bit, however many buffers they took. */
#include "tests/unit/craft.h"
#include "tests/unit/random_blocks.h"
#include "tests/unit/trainer_fixture.h"

/* Some 16 MB in float32: several buffers of a GPU's backend. */
static const struct tiny_model large = {.layers = 2,
    .width = 96,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 24,
    .mlp_width = 300,
    .vocabulary = 20011,
    .biases = true,
    .tied = false};

struct loaded {
	struct op_context *ops;
	struct model_files *files;
	struct model *model;
};

static size_t checked;

static void
check_tensor(const struct loaded *f, const char *name, const void *device, size_t rows, size_t cols,
    enum op_dtype dtype)
{
	const size_t bytes = rows * cols * (dtype == OP_F32 ? 4 : 2);
	char *want = malloc(bytes), *got = malloc(bytes);
	struct refusal r = {0};

	CHECK_MSG(model_files_read(f->files, name, want, dtype, rows, cols, &r) == 0, "%s", r.text);
	CHECK(op_download(f->ops, got, device, bytes) == OP_OK);
	CHECK_MSG(memcmp(got, want, bytes) == 0, "%s", name);
	checked += rows * cols;
	free(want);
	free(got);
}

static void
check_linear(const struct loaded *f, size_t layer, enum model_linear i)
{
	const struct model_weights *w = &f->model->blocks[layer].linear[i];
	char path[100], name[200];

	snprintf(path, sizeof(path), "%s.weight", model_linear_path(i));
	model_module_name(name, sizeof(name), f->model->config, layer, path);
	check_tensor(f, name, w->w.data, w->w.rows, w->w.cols, w->w.dtype);
	if (w->bias == NULL)
		return;
	snprintf(path, sizeof(path), "%s.bias", model_linear_path(i));
	model_module_name(name, sizeof(name), f->model->config, layer, path);
	check_tensor(f, name, w->bias, 1, w->w.rows, OP_F32);
}

/* Loads the folder's model and compares every tensor. */
static void
check_model(const char *path, enum op_dtype compute)
{
	const struct op_options options = {.compute = compute, .threads = 2};
	const struct model_config *c;
	struct refusal r = {0};
	struct loaded f;
	const struct model *m;
	char name[200];

	checked = 0;
	if (op_open(&f.ops, &options) != OP_OK || model_files_open(&f.files, path, &r) != 0 ||
	    model_load(&f.model, f.ops, f.files, &r) != 0) {
		printf("%s\n", r.text);
		abort();
	}
	m = f.model;
	c = m->config;
	check_tensor(&f, "model.embed_tokens.weight", m->embedding.data, c->vocabulary, c->width,
	    m->embedding.dtype);
	if (!c->tied_head)
		check_tensor(
		    &f, "lm_head.weight", m->head.data, c->vocabulary, c->width, m->head.dtype);
	check_tensor(&f, "model.norm.weight", m->norm, 1, c->width, OP_F32);
	for (size_t l = 0; l < c->layer_count; l++) {
		model_module_name(name, sizeof(name), c, l, "input_layernorm.weight");
		check_tensor(&f, name, m->blocks[l].attention_norm, 1, c->width, OP_F32);
		model_module_name(name, sizeof(name), c, l, "post_attention_layernorm.weight");
		check_tensor(&f, name, m->blocks[l].mlp_norm, 1, c->width, OP_F32);
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++)
			check_linear(&f, l, i);
	}
	CHECK_MSG(checked == m->parameters, "%zu of %zu", checked, m->parameters);
	model_free(f.model);
	model_files_free(f.files);
	op_close(f.ops);
}

TEST(safetensors)
{
	for (int i = 0; i < 4; i++) {
		struct tiny_model tiny = i < 2 ? tiny_default : large;

		tiny_model_write(&tiny, 3);
		check_model(tiny.path, i % 2 == 0 ? OP_F32 : OP_BF16);
		tiny_model_remove(&tiny);
	}
}

/* Each matrix in another type; the embedding, in Q6_K, takes several buffers of a GPU's backend. */
static void
craft_gguf(const char *dir)
{
	static const struct {
		const char *name;
		size_t cols, rows;
		enum dequant_type type;
	} tensors[] = {{"token_embd.weight", 256, 50021, DEQUANT_Q6_K},
	    {"output.weight", 256, 50021, DEQUANT_Q4_0},
	    {"output_norm.weight", 256, 0, DEQUANT_F32},
	    {"blk.0.attn_norm.weight", 256, 0, DEQUANT_F32},
	    {"blk.0.ffn_norm.weight", 256, 0, DEQUANT_F32},
	    {"blk.0.attn_q.weight", 256, 256, DEQUANT_Q4_K},
	    {"blk.0.attn_k.weight", 256, 128, DEQUANT_Q5_K},
	    {"blk.0.attn_v.weight", 256, 128, DEQUANT_Q8_0},
	    {"blk.0.attn_output.weight", 256, 256, DEQUANT_Q5_0},
	    {"blk.0.ffn_gate.weight", 256, 96, DEQUANT_Q5_1},
	    {"blk.0.ffn_up.weight", 256, 96, DEQUANT_BF16},
	    {"blk.0.ffn_down.weight", 96, 256, DEQUANT_F16}};
	enum { COUNT = sizeof(tensors) / sizeof(tensors[0]), KEYS = 9, VOCABULARY = 50021 };
	struct bytes b = {NULL, 0};
	size_t at = 0, sizes[COUNT];

	put_gguf_head(&b, 3, COUNT, KEYS);
	put_key_text(&b, "general.architecture", "llama");
	put_key_u32(&b, "llama.embedding_length", 256);
	put_key_u32(&b, "llama.feed_forward_length", 96);
	put_key_u32(&b, "llama.block_count", 1);
	put_key_u32(&b, "llama.attention.head_count", 4);
	put_key_u32(&b, "llama.attention.head_count_kv", 2);
	put_key_u32(&b, "llama.context_length", 16);
	put_key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	put_key_u32(&b, "llama.vocab_size", VOCABULARY);
	for (size_t i = 0; i < COUNT; i++) {
		const struct dequant_format *f = dequant_format(tensors[i].type);

		sizes[i] = (tensors[i].rows != 0 ? tensors[i].rows : 1) * tensors[i].cols /
			   f->block * f->bytes;
		put_tensor(
		    &b, tensors[i].name, tensors[i].cols, tensors[i].rows, tensors[i].type, at);
		at = (at + sizes[i] + 31) / 32 * 32;
	}
	put_padding(&b, 32);
	for (size_t i = 0; i < COUNT; i++) {
		const struct dequant_format *f = dequant_format(tensors[i].type);
		unsigned char *raw = calloc(1, sizes[i] + 32);

		random_blocks(raw, tensors[i].type, sizes[i] / f->bytes * f->block, i + 1);
		put(&b, raw, (sizes[i] + 31) / 32 * 32);
		free(raw);
	}
	craft_file(dir, "x.gguf", b.data, b.len);
	bytes_free(&b);
}

TEST(quantized)
{
	const char *dir = craft_folder();

	craft_gguf(dir);
	check_model(dir, OP_F32);
	check_model(dir, OP_BF16);
	craft_remove(dir);
}

TEST_MAIN(TEST_CASE(safetensors), TEST_CASE(quantized))
