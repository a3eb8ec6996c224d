#include "worker/files/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/files/config_gguf.h"
#include "worker/files/config_rope.h"

enum { MAX_SIZE = 1 << 28, MAX_LAYERS = 1 << 14 };

/* Keys of config.json that change the maths in some family: a family that does not read a key
   itself takes only the value that changes nothing. */
static const struct neutral {
	const char *key;
	double value; /* what a number must be; NAN: no number is neutral */
} neutral[] = {
    {"quantization_config", NAN},
    {"compression_config", NAN},
    {"vision_config", NAN},
    {"audio_config", NAN},
    {"text_config", NAN},
    {"sliding_window", NAN},
    {"attention_chunk_size", NAN},
    {"no_rope_layers", NAN},
    {"clip_qkv", NAN},
    {"query_pre_attn_scalar", NAN},
    {"attn_logit_softcapping", NAN},
    {"final_logit_softcapping", NAN},
    {"attention_multiplier", NAN},
    {"attention_dropout", 0},
    {"hidden_dropout", 0},
    {"resid_pdrop", 0},
    {"embd_pdrop", 0},
    {"num_local_experts", 0},
    {"num_experts", 0},
    {"n_routed_experts", 0},
    {"partial_rotary_factor", 1},
    {"rotary_pct", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"rope_interleaved", 0},
    {"use_qk_norm", 0},
    {"qk_norm", 0},
    {"qk_layernorm", 0},
    {"use_mrope", 0},
    {"alibi", 0},
    {"lm_head_bias", 0},
    {"parallel_residual", 0},
    {"use_sliding_window", 0},
};

/* One family: what its files call themselves, and its defaults where a key is missing. */
struct family {
	const char *model_type;
	const char *architecture;
	const char *gguf; /* general.architecture */
	const char *prefix;
	double vocabulary, width, mlp_width, layers, heads, positions, norm_epsilon, rope_theta;
	bool tied;
	bool gguf_interleaved;
	const char *const *skipped;
};

static const char *const no_prefixes[] = {NULL};

static const struct family families[] = {
    {.model_type = "llama",
	.architecture = "LlamaForCausalLM",
	.gguf = "llama",
	.prefix = "model",
	.vocabulary = 32000,
	.width = 4096,
	.mlp_width = 11008,
	.layers = 32,
	.heads = 32,
	.positions = 2048,
	.norm_epsilon = 1e-6,
	.rope_theta = 10000,
	.tied = false,
	.gguf_interleaved = true,
	.skipped = no_prefixes},
};

enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]) };

static bool
is_absent(struct json v)
{
	return !json_exists(v) || json_is(v, JSON_NULL);
}

static bool
is_neutral(struct json v, double value)
{
	double number;

	switch (json_type(v)) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return json_true(v) == (value == 1);
	case JSON_NUMBER:
		return json_double(v, &number) && number == value;
	case JSON_ARRAY:
	case JSON_OBJECT:
		return json_count(v) == 0;
	default:
		return false;
	}
}

static int
check_neutral(struct json root, struct refusal *r)
{
	for (size_t i = 0; i < sizeof(neutral) / sizeof(neutral[0]); i++)
		if (!is_neutral(json_get(root, neutral[i].key), neutral[i].value))
			return refuse(r, 422,
			    "config.json: this value of %s is not supported for this family",
			    neutral[i].key);
	return 0;
}

/* A size: an integer from 1 on, the fallback where the key is missing. */
static int
get_size(struct json root, const char *key, double fallback, size_t *out, struct refusal *r)
{
	struct json v = json_get(root, key);
	int64_t n = (int64_t)fallback;

	if (!is_absent(v) && !json_int64(v, &n))
		return refuse(r, 422, "config.json: %s is no integer", key);
	if (n < 1 || n > MAX_SIZE)
		return refuse(r, 422, "config.json: %s %lld is out of range", key, (long long)n);
	*out = (size_t)n;
	return 0;
}

static int
get_bool(struct json root, const char *key, bool fallback, bool *out, struct refusal *r)
{
	struct json v = json_get(root, key);

	*out = fallback;
	if (is_absent(v))
		return 0;
	if (!json_is(v, JSON_BOOL))
		return refuse(r, 422, "config.json: %s is neither true nor false", key);
	*out = json_true(v);
	return 0;
}

static int
get_activation(struct model_config *c, struct json root, struct refusal *r)
{
	struct json v = json_get(root, "hidden_act");
	const char *text = json_string(v, NULL);

	c->activation = ACTIVATION_SILU;
	if (is_absent(v) ||
	    (text != NULL && (strcmp(text, "silu") == 0 || strcmp(text, "swish") == 0)))
		return 0;
	return refuse(r, 422, "config.json: hidden_act \"%.60s\" is not supported; silu is",
	    text != NULL ? text : "of another type");
}

static int
get_epsilon(struct model_config *c, struct json root, double fallback, struct refusal *r)
{
	struct json v = json_get(root, "rms_norm_eps");
	double epsilon = fallback;

	if ((!is_absent(v) && !json_double(v, &epsilon)) || !(epsilon >= 0) || !isfinite(epsilon))
		return refuse(r, 422, "config.json: rms_norm_eps is no number from 0 on");
	c->norm_epsilon = (float)epsilon;
	return 0;
}

static int
find_family(const struct family **out, struct json root, struct refusal *r)
{
	const char *type = json_string(json_get(root, "model_type"), NULL);
	struct json architectures = json_get(root, "architectures");

	if (type == NULL)
		return refuse(r, 422, "config.json has no model_type");
	*out = NULL;
	for (size_t i = 0; i < FAMILY_COUNT; i++)
		if (strcmp(type, families[i].model_type) == 0)
			*out = &families[i];
	if (*out == NULL)
		return refuse(
		    r, 422, "config.json: model_type \"%.60s\" is not supported; llama is", type);
	if (is_absent(architectures))
		return 0;
	if (!json_is(architectures, JSON_ARRAY) || json_count(architectures) != 1 ||
	    !json_string_is(json_first(architectures), (*out)->architecture)) {
		const char *first = json_string(json_first(architectures), NULL);

		return refuse(r, 422,
		    "config.json: the architecture \"%.80s\" is not supported; %s is",
		    first != NULL ? first : "of another type", (*out)->architecture);
	}
	return 0;
}

static int
get_sizes(struct model_config *c, const struct family *f, struct json root, struct refusal *r)
{
	size_t head_dim = 0;

	if (get_size(root, "vocab_size", f->vocabulary, &c->vocabulary, r) != 0 ||
	    get_size(root, "hidden_size", f->width, &c->width, r) != 0 ||
	    get_size(root, "intermediate_size", f->mlp_width, &c->mlp_width, r) != 0 ||
	    get_size(root, "num_hidden_layers", f->layers, &c->layer_count, r) != 0 ||
	    get_size(root, "num_attention_heads", f->heads, &c->heads, r) != 0 ||
	    get_size(root, "num_key_value_heads", (double)c->heads, &c->kv_heads, r) != 0 ||
	    get_size(root, "max_position_embeddings", f->positions, &c->positions, r) != 0)
		return -1;
	if (is_absent(json_get(root, "head_dim"))) {
		if (c->width % c->heads != 0)
			return refuse(r, 422,
			    "config.json: hidden_size is not a multiple of num_attention_heads");
		head_dim = c->width / c->heads;
	}
	return get_size(root, "head_dim", (double)head_dim, &c->head_dim, r);
}

/* What holds whatever file the sizes came from; makes the layers' rows. */
int
config_finish(struct model_config *c, struct refusal *r)
{
	if (c->heads % c->kv_heads != 0)
		return refuse(r, 422,
		    "the model has %zu attention heads, not a multiple of its %zu key/value heads",
		    c->heads, c->kv_heads);
	if (c->layer_count > MAX_LAYERS)
		return refuse(
		    r, 422, "the model has %zu layers, more than %d", c->layer_count, MAX_LAYERS);
	c->score_scale = (float)(1 / sqrt((double)c->head_dim));
	c->layers = calloc(c->layer_count, sizeof(c->layers[0]));
	if (c->layers == NULL)
		return refuse(r, 507, "no memory for the model's configuration");
	return 0;
}

/* layer_types, where a config has it, may only say what the family does anyway. */
static int
check_layer_types(struct json root, size_t layers, struct refusal *r)
{
	struct json types = json_get(root, "layer_types");

	if (is_absent(types))
		return 0;
	if (!json_is(types, JSON_ARRAY) || json_count(types) != layers)
		return refuse(r, 422, "config.json: layer_types is no list of %zu", layers);
	json_foreach (item, types) {
		const char *type = json_string(item, NULL);

		if (type == NULL || strcmp(type, "full_attention") != 0)
			return refuse(r, 422,
			    "config.json: the layer type \"%.60s\" is not supported for this "
			    "family",
			    type != NULL ? type : "of another type");
	}
	return 0;
}

static int
read_json(struct model_config *c, struct json root, struct refusal *r)
{
	const struct family *f = NULL;
	bool attention_bias, mlp_bias;

	if (!json_is(root, JSON_OBJECT))
		return refuse(r, 422, "config.json is no JSON object");
	if (find_family(&f, root, r) != 0 || check_neutral(root, r) != 0 ||
	    get_sizes(c, f, root, r) != 0 || check_layer_types(root, c->layer_count, r) != 0 ||
	    get_activation(c, root, r) != 0 || get_epsilon(c, root, f->norm_epsilon, r) != 0 ||
	    get_bool(root, "tie_word_embeddings", f->tied, &c->tied_head, r) != 0 ||
	    get_bool(root, "attention_bias", false, &attention_bias, r) != 0 ||
	    get_bool(root, "mlp_bias", false, &mlp_bias, r) != 0 || config_finish(c, r) != 0)
		return -1;
	c->family = f->model_type;
	c->prefix = f->prefix;
	c->skipped = f->skipped;
	c->gguf_interleaved = f->gguf_interleaved;
	for (size_t i = 0; i < c->layer_count; i++)
		c->layers[i] = (struct model_layer){.mixer = MIXER_ATTENTION,
		    .qkv_bias = attention_bias,
		    .o_bias = attention_bias,
		    .mlp_bias = mlp_bias};
	return rope_from_json(c, root, f->rope_theta, r);
}

int
model_config_from_json(struct model_config *out, struct json root, struct refusal *r)
{
	memset(out, 0, sizeof(*out));
	if (read_json(out, root, r) != 0) {
		model_config_fini(out);
		return -1;
	}
	return 0;
}

int
model_config_from_gguf(struct model_config *out, const struct gguf *file, struct refusal *r)
{
	const struct family *f = NULL;
	const char *name = "";
	size_t len = 0;

	memset(out, 0, sizeof(*out));
	gguf_string(file, "general.architecture", &name, &len);
	for (size_t i = 0; i < FAMILY_COUNT; i++)
		if (gguf_string_is(file, "general.architecture", families[i].gguf))
			f = &families[i];
	if (f == NULL)
		return refuse(r, 422,
		    "the GGUF file's general.architecture \"%.*s\" is not supported; llama is",
		    len < 60 ? (int)len : 60, name);
	out->family = f->model_type;
	out->prefix = f->prefix;
	out->skipped = f->skipped;
	out->gguf_interleaved = f->gguf_interleaved;
	if (config_read_gguf(out, file, f->gguf, r) != 0) {
		model_config_fini(out);
		return -1;
	}
	return 0;
}

void
model_config_fini(struct model_config *c)
{
	free(c->layers);
	free(c->rope.frequency);
	memset(c, 0, sizeof(*c));
}
