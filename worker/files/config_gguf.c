#include "worker/files/config_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/files/config_rope.h"

enum { MAX_SIZE = 1 << 28, KEY_SIZE = 128 };

/* Keys below "<architecture>." that are read, or that tell nothing about the maths here. */
static const char *const known[] = {"vocab_size", "context_length", "embedding_length",
    "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
    "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base", "rope.scale_linear", "rope.scaling.type",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned",
    "tensor_data_layout"};

/* Keys that may be there with a value that changes nothing. */
static const struct {
	const char *name;
	double value;
} neutral[] = {{"expert_count", 0}, {"expert_used_count", 0}, {"attention.sliding_window", 0},
    {"rope.scaling.attn_factor", 1}, {"logit_scale", 1}, {"residual_scale", 1},
    {"embedding_scale", 1}, {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0},
    {"use_parallel_residual", 0}, {"attention.causal", 1}};

static void
full_key(char key[KEY_SIZE], const char *arch, const char *name)
{
	snprintf(key, KEY_SIZE, "%s.%s", arch, name);
}

static bool
is_neutral(const struct gguf *g, const char *key, double value)
{
	double number;
	bool truth;

	if (gguf_bool(g, key, &truth))
		return truth == (value == 1);
	return gguf_float(g, key, &number) && number == value;
}

static bool
is_known(const struct gguf *g, const char *arch, const char *key)
{
	const char *name = key + strlen(arch) + 1;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(name, known[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(neutral) / sizeof(neutral[0]); i++)
		if (strcmp(name, neutral[i].name) == 0)
			return is_neutral(g, key, neutral[i].value);
	return false;
}

static int
check_keys(const struct gguf *g, const char *arch, struct refusal *r)
{
	size_t arch_len = strlen(arch), len;
	const char *view;

	for (size_t i = 0; gguf_key_at(g, i, &view, &len); i++) {
		char key[KEY_SIZE];

		if (len <= arch_len || memcmp(view, arch, arch_len) != 0 || view[arch_len] != '.')
			continue;
		snprintf(key, sizeof(key), "%.*s", len < KEY_SIZE ? (int)len : KEY_SIZE - 1, view);
		if (len >= KEY_SIZE || !is_known(g, arch, key))
			return refuse(r, 422, "the GGUF file's %s is not supported", key);
	}
	if (gguf_has(g, "split.count") && !is_neutral(g, "split.count", 1) &&
	    !is_neutral(g, "split.count", 0))
		return refuse(r, 422, "the GGUF file is one of several (split.count): merge them");
	return 0;
}

/* fallback 0: the key has to be there. */
static int
get_size(const struct gguf *g, const char *arch, const char *name, size_t fallback, size_t *out,
    struct refusal *r)
{
	char key[KEY_SIZE];
	uint64_t n = fallback;

	full_key(key, arch, name);
	if (!gguf_uint(g, key, &n) && (gguf_has(g, key) || fallback == 0))
		return refuse(r, 422, "the GGUF file's %s is %s", key,
		    gguf_has(g, key) ? "no single integer" : "missing");
	if (n < 1 || n > MAX_SIZE)
		return refuse(r, 422, "the GGUF file's %s, %llu, is out of range", key,
		    (unsigned long long)n);
	*out = (size_t)n;
	return 0;
}

static int
get_epsilon(struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r)
{
	char key[KEY_SIZE];
	double epsilon;

	full_key(key, arch, "attention.layer_norm_rms_epsilon");
	if (!gguf_float(g, key, &epsilon) || !(epsilon >= 0) || !isfinite(epsilon))
		return refuse(r, 422, "the GGUF file's %s is missing or no number from 0 on", key);
	c->norm_epsilon = (float)epsilon;
	return 0;
}

static int
get_sizes(struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r)
{
	const struct gguf_tensor *embedding = gguf_tensor(g, "token_embd.weight");
	size_t value_length;

	if (embedding == NULL)
		return refuse(r, 422, "the GGUF file has no token_embd.weight");
	if (get_size(g, arch, "vocab_size", embedding->rows, &c->vocabulary, r) != 0 ||
	    get_size(g, arch, "embedding_length", 0, &c->width, r) != 0 ||
	    get_size(g, arch, "feed_forward_length", 0, &c->mlp_width, r) != 0 ||
	    get_size(g, arch, "block_count", 0, &c->layer_count, r) != 0 ||
	    get_size(g, arch, "attention.head_count", 0, &c->heads, r) != 0 ||
	    get_size(g, arch, "attention.head_count_kv", c->heads, &c->kv_heads, r) != 0 ||
	    get_size(g, arch, "context_length", 0, &c->positions, r) != 0 ||
	    get_size(g, arch, "attention.key_length", c->width / c->heads, &c->head_dim, r) != 0 ||
	    get_size(g, arch, "attention.value_length", c->head_dim, &value_length, r) != 0)
		return -1;
	if (value_length != c->head_dim)
		return refuse(r, 422,
		    "the GGUF file's attention.value_length is not its attention.key_length");
	return 0;
}

static bool
has_bias(const struct gguf *g, size_t layer, const char *part)
{
	char name[64];

	snprintf(name, sizeof(name), "blk.%zu.%s.bias", layer, part);
	return gguf_tensor(g, name) != NULL;
}

int
config_read_gguf(struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r)
{
	if (check_keys(g, arch, r) != 0 || get_sizes(c, g, arch, r) != 0 ||
	    get_epsilon(c, g, arch, r) != 0 || config_finish(c, r) != 0)
		return -1;
	c->activation = ACTIVATION_SILU;
	c->tied_head = gguf_tensor(g, "output.weight") == NULL;
	for (size_t i = 0; i < c->layer_count; i++)
		c->layers[i] = (struct model_layer){.mixer = MIXER_ATTENTION,
		    .qkv_bias = has_bias(g, i, "attn_q"),
		    .o_bias = has_bias(g, i, "attn_output"),
		    .mlp_bias = has_bias(g, i, "ffn_gate")};
	return rope_from_gguf(c, g, arch, r);
}
