/*
 * A tiny random Llama on disk, as Transformers saves one, for tests of what is built on a model.
 * Widths are odd on purpose: head_dim * heads is not the width, no size is a multiple of 8.
 */
#ifndef TESTS_UNIT_TINY_MODEL_H
#define TESTS_UNIT_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tiny_model {
	size_t layers, width, heads, kv_heads, head_dim, mlp_width, vocabulary;
	bool biases, tied;
	char path[64]; /* the folder, after tiny_model_write */
	/* while writing */
	uint64_t random;
	char header[64 * 1024];
	size_t header_len, data_len;
	float *data;
};

static const struct tiny_model tiny_default = {
    .layers = 2,
    .width = 20,
    .heads = 6,
    .kv_heads = 2,
    .head_dim = 6,
    .mlp_width = 27,
    .vocabulary = 37,
    .biases = true,
    .tied = false,
};

/* Uniform in [-1, 1): splitmix64. */
static inline double
tiny_uniform(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) / 0x1p52 - 1;
}

/* Appends a tensor of center + spread * uniform. rows 0: a vector. */
static inline void
tiny_tensor(
    struct tiny_model *m, const char *name, size_t rows, size_t cols, double center, double spread)
{
	const size_t n = (rows == 0 ? 1 : rows) * cols, from = m->data_len;
	char shape[64];

	if (rows == 0)
		snprintf(shape, sizeof(shape), "[%zu]", cols);
	else
		snprintf(shape, sizeof(shape), "[%zu,%zu]", rows, cols);
	m->data = realloc(m->data, (from + n) * sizeof(float));
	for (size_t i = 0; i < n; i++)
		m->data[from + i] = (float)(center + spread * tiny_uniform(&m->random));
	m->data_len += n;
	m->header_len +=
	    (size_t)snprintf(m->header + m->header_len, sizeof(m->header) - m->header_len,
		"%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
		m->header_len == 1 ? "" : ",", name, shape, from * 4, m->data_len * 4);
}

static inline void
tiny_linear(struct tiny_model *m, size_t layer, const char *path, size_t outputs, size_t inputs)
{
	char name[128];

	snprintf(name, sizeof(name), "model.layers.%zu.%s.weight", layer, path);
	tiny_tensor(m, name, outputs, inputs, 0, 1.2 / (double)inputs * 4);
	snprintf(name, sizeof(name), "model.layers.%zu.%s.bias", layer, path);
	if (m->biases)
		tiny_tensor(m, name, 0, outputs, 0, 0.2);
}

static inline void
tiny_layer(struct tiny_model *m, size_t layer)
{
	const size_t D = m->width, q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
	char name[128];

	snprintf(name, sizeof(name), "model.layers.%zu.input_layernorm.weight", layer);
	tiny_tensor(m, name, 0, D, 1, 0.3);
	snprintf(name, sizeof(name), "model.layers.%zu.post_attention_layernorm.weight", layer);
	tiny_tensor(m, name, 0, D, 1, 0.3);
	tiny_linear(m, layer, "self_attn.q_proj", q, D);
	tiny_linear(m, layer, "self_attn.k_proj", kv, D);
	tiny_linear(m, layer, "self_attn.v_proj", kv, D);
	tiny_linear(m, layer, "self_attn.o_proj", D, q);
	tiny_linear(m, layer, "mlp.gate_proj", m->mlp_width, D);
	tiny_linear(m, layer, "mlp.up_proj", m->mlp_width, D);
	tiny_linear(m, layer, "mlp.down_proj", D, m->mlp_width);
}

static inline FILE *
tiny_file(const struct tiny_model *m, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", m->path, name);
	return fopen(path, "wb");
}

static inline void
tiny_config(const struct tiny_model *m)
{
	FILE *f = tiny_file(m, "config.json");

	fprintf(f,
	    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_act\":"
	    "\"silu\","
	    "\"hidden_size\":%zu,\"intermediate_size\":%zu,\"num_hidden_layers\":%zu,"
	    "\"num_attention_heads\":%zu,\"num_key_value_heads\":%zu,\"head_dim\":%zu,"
	    "\"vocab_size\":%zu,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,"
	    "\"max_position_embeddings\":128,\"attention_bias\":%s,\"mlp_bias\":%s,"
	    "\"tie_word_embeddings\":%s,\"torch_dtype\":\"float32\"}\n",
	    m->width, m->mlp_width, m->layers, m->heads, m->kv_heads, m->head_dim, m->vocabulary,
	    m->biases ? "true" : "false", m->biases ? "true" : "false", m->tied ? "true" : "false");
	fclose(f);
}

/* Writes the model into a new folder below $TMPDIR or /tmp; m->path names it. */
static inline void
tiny_model_write(struct tiny_model *m, uint64_t seed)
{
	uint64_t length;
	FILE *f;

	snprintf(m->path, sizeof(m->path), "/tmp/tiny-model-XXXXXX");
	if (mkdtemp(m->path) == NULL)
		abort();
	m->random = seed;
	m->header[0] = '{';
	m->header_len = 1;
	tiny_tensor(m, "model.embed_tokens.weight", m->vocabulary, m->width, 0, 1);
	if (!m->tied)
		tiny_tensor(m, "lm_head.weight", m->vocabulary, m->width, 0, 0.5);
	tiny_tensor(m, "model.norm.weight", 0, m->width, 1, 0.3);
	for (size_t l = 0; l < m->layers; l++)
		tiny_layer(m, l);
	m->header[m->header_len++] = '}';
	while (m->header_len % 8 != 0)
		m->header[m->header_len++] = ' ';
	length = m->header_len;
	f = tiny_file(m, "model.safetensors");
	fwrite(&length, sizeof(length), 1, f);
	fwrite(m->header, 1, m->header_len, f);
	fwrite(m->data, sizeof(float), m->data_len, f);
	fclose(f);
	free(m->data);
	m->data = NULL;
	tiny_config(m);
}

static inline void
tiny_model_remove(struct tiny_model *m)
{
	static const char *const names[] = {"config.json", "model.safetensors"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", m->path, names[i]);
		unlink(path);
	}
	rmdir(m->path);
}

#endif
