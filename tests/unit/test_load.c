/* Weights on the device are those of the files, to the bit, however many buffers they took. */
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

static size_t checked;

static void
check_tensor(const struct fixture *f, const char *name, const void *device, size_t rows,
    size_t cols, enum op_dtype dtype)
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
check_linear(const struct fixture *f, size_t layer, enum model_linear i)
{
	const struct model_weights *w = &f->t->model->blocks[layer].linear[i];
	char path[100], name[200];

	snprintf(path, sizeof(path), "%s.weight", model_linear_path(i));
	model_module_name(name, sizeof(name), f->t->model->config, layer, path);
	check_tensor(f, name, w->w.data, w->w.rows, w->w.cols, w->w.dtype);
	if (w->bias == NULL)
		return;
	snprintf(path, sizeof(path), "%s.bias", model_linear_path(i));
	model_module_name(name, sizeof(name), f->t->model->config, layer, path);
	check_tensor(f, name, w->bias, 1, w->w.rows, OP_F32);
}

static void
check_model(const struct tiny_model *tiny, enum op_dtype compute)
{
	const size_t D = tiny->width;
	const struct model *m;
	struct fixture f;
	char name[200];

	checked = 0;
	setup_model(&f, tiny, compute, &plain);
	m = f.t->model;
	check_tensor(&f, "model.embed_tokens.weight", m->embedding.data, tiny->vocabulary, D,
	    m->embedding.dtype);
	if (!tiny->tied)
		check_tensor(
		    &f, "lm_head.weight", m->head.data, tiny->vocabulary, D, m->head.dtype);
	check_tensor(&f, "model.norm.weight", m->norm, 1, D, OP_F32);
	for (size_t l = 0; l < tiny->layers; l++) {
		model_module_name(name, sizeof(name), m->config, l, "input_layernorm.weight");
		check_tensor(&f, name, m->blocks[l].attention_norm, 1, D, OP_F32);
		model_module_name(
		    name, sizeof(name), m->config, l, "post_attention_layernorm.weight");
		check_tensor(&f, name, m->blocks[l].mlp_norm, 1, D, OP_F32);
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++)
			check_linear(&f, l, i);
	}
	CHECK_MSG(checked == m->parameters, "%zu of %zu", checked, m->parameters);
	teardown(&f);
}

TEST(what_is_loaded_is_what_the_files_hold)
{
	check_model(&tiny_default, OP_F32);
	check_model(&tiny_default, OP_BF16);
	check_model(&large, OP_F32);
	check_model(&large, OP_BF16);
}

TEST_MAIN(TEST_CASE(what_is_loaded_is_what_the_files_hold))
