#include "tests/bench/random_model.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Elements that are made; a tensor takes as many of them as it has, again and again. */
enum { BLOCK = 8 << 20 };

/* The header as it is written; where `text` is NULL, its length alone. rows 0 is a vector. */
struct header {
	char *text;
	size_t length, bytes; /* of text; of the tensors so far */
};

static void
tensor(struct header *h, const char *name, size_t rows, size_t cols)
{
	const size_t from = h->bytes;
	char line[256], shape[64];
	int n;

	if (rows == 0)
		snprintf(shape, sizeof(shape), "%zu", cols);
	else
		snprintf(shape, sizeof(shape), "%zu,%zu", rows, cols);
	h->bytes += 2 * (rows == 0 ? 1 : rows) * cols;
	n = snprintf(line, sizeof(line),
	    "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
	    from == 0 ? "{" : ",", name, shape, from, h->bytes);
	if (h->text != NULL)
		memcpy(h->text + h->length, line, (size_t)n);
	h->length += (size_t)n;
}

static void
layer(struct header *h, const struct roof_model *m, size_t index)
{
	const size_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
	const struct {
		const char *path;
		size_t rows, cols;
	} tensors[] = {
	    {"input_layernorm", 0, m->width},
	    {"post_attention_layernorm", 0, m->width},
	    {"self_attn.q_proj", q, m->width},
	    {"self_attn.k_proj", kv, m->width},
	    {"self_attn.v_proj", kv, m->width},
	    {"self_attn.o_proj", m->width, q},
	    {"mlp.gate_proj", m->mlp_width, m->width},
	    {"mlp.up_proj", m->mlp_width, m->width},
	    {"mlp.down_proj", m->width, m->mlp_width},
	};

	for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++) {
		char name[128];

		snprintf(name, sizeof(name), "model.layers.%zu.%s.weight", index, tensors[i].path);
		tensor(h, name, tensors[i].rows, tensors[i].cols);
	}
}

static void
make_header(struct header *h, const struct roof_model *m)
{
	h->length = h->bytes = 0;
	tensor(h, "model.embed_tokens.weight", m->vocabulary, m->width);
	if (!m->tied)
		tensor(h, "lm_head.weight", m->vocabulary, m->width);
	tensor(h, "model.norm.weight", 0, m->width);
	for (size_t i = 0; i < m->layers; i++)
		layer(h, m, i);
	if (h->text != NULL)
		memset(h->text + h->length, ' ', 8);
	if (h->text != NULL)
		h->text[h->length] = '}';
	h->length = (h->length + 8) / 8 * 8;
}

/* Random bits of bfloat16 between 2^-8 and 2^-5 in size, as weights are, of either sign. */
static void
fill(uint16_t *block)
{
	uint64_t state = 1;

	for (size_t i = 0; i < BLOCK; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		block[i] = (uint16_t)((119 + (state >> 33) % 3) << 7 | (state >> 40 & 0x807f));
	}
}

static int
write_weights(FILE *f, const struct roof_model *m)
{
	struct header h = {0};
	uint16_t *block = malloc(BLOCK * sizeof(*block));
	uint64_t length;
	bool written;

	make_header(&h, m);
	h.text = malloc(h.length + 8);
	if (block == NULL || h.text == NULL) {
		free(block);
		free(h.text);
		return -1;
	}
	make_header(&h, m);
	fill(block);
	length = h.length;
	written = fwrite(&length, 8, 1, f) == 1 && fwrite(h.text, h.length, 1, f) == 1;
	for (size_t left = h.bytes; written && left > 0;) {
		const size_t most = BLOCK * sizeof(*block), n = left < most ? left : most;

		written = fwrite(block, n, 1, f) == 1;
		left -= n;
	}
	free(block);
	free(h.text);
	return written ? 0 : -1;
}

static FILE *
file_in(const char *folder, const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "wb");
}

size_t
random_model_bytes(const struct roof_model *m)
{
	struct header h = {0};

	make_header(&h, m);
	return h.bytes;
}

size_t
random_model_write(const struct roof_model *m, const char *folder)
{
	FILE *f = file_in(folder, "config.json");

	if (f == NULL)
		return 0;
	fprintf(f,
	    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
	    "\"hidden_act\":\"silu\",\"hidden_size\":%zu,\"intermediate_size\":%zu,"
	    "\"num_hidden_layers\":%zu,\"num_attention_heads\":%zu,\"num_key_value_heads\":%zu,"
	    "\"head_dim\":%zu,\"vocab_size\":%zu,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
	    "\"max_position_embeddings\":131072,\"attention_bias\":false,\"mlp_bias\":false,"
	    "\"tie_word_embeddings\":%s,\"torch_dtype\":\"bfloat16\"}\n",
	    m->width, m->mlp_width, m->layers, m->heads, m->kv_heads, m->head_dim, m->vocabulary,
	    m->tied ? "true" : "false");
	if (fclose(f) != 0)
		return 0;
	f = file_in(folder, "model.safetensors");
	if (f == NULL)
		return 0;
	if (write_weights(f, m) != 0) {
		fclose(f);
		return 0;
	}
	return fclose(f) == 0 ? random_model_bytes(m) : 0;
}

void
random_model_remove(const char *folder)
{
	static const char *const names[] = {"config.json", "model.safetensors"};
	char path[1024];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
}
