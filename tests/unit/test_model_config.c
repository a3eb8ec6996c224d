/*
 * config.json and GGUF metadata of the Llama family: defaults, rotary embeddings against the
 * frequencies that Transformers 5.24 computes, and what has to be refused by its name.
 */
#include <math.h>

#include "worker/files/config.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

static struct refusal refusal;

/* The config.json of `members` (without braces) added to model_type. */
static int
read_config(struct model_config *c, const char *members)
{
	struct json_doc *doc;
	char text[2000];
	int result;

	snprintf(
	    text, sizeof(text), "{\"model_type\":\"llama\"%s%s}", members[0] ? "," : "", members);
	if (json_parse(&doc, text, strlen(text), NULL) != 0) {
		CHECK_MSG(false, "%s", text);
		exit(1);
	}
	result = model_config_from_json(c, json_root(doc), &refusal);
	json_free(doc);
	return result;
}

TEST(defaults)
{
	struct model_config c;

	CHECK(read_config(&c, "") == 0);
	CHECK(c.vocabulary == 32000 && c.width == 4096 && c.mlp_width == 11008);
	CHECK(c.heads == 32 && c.kv_heads == 32 && c.head_dim == 128 && c.layer_count == 32);
	CHECK(c.positions == 2048 && c.norm_epsilon == 1e-6f && !c.tied_head);
	CHECK(c.rope.half == 64 && c.rope.magnitude == 1 && c.rope.frequency[0] == 1);
	CHECK(fabsf(c.rope.frequency[63] / 1.15478197e-4f - 1) < 1e-6f);
	CHECK(c.layers[31].window == 0 && !c.layers[31].qkv_bias && !c.layers[31].mlp_bias);
	CHECK(fabsf(c.score_scale - 0.0883883476f) < 1e-8f);
	model_config_fini(&c);
	model_config_fini(&c);
}

TEST(settings)
{
	struct model_config c;

	CHECK(read_config(&c, "\"hidden_size\":60,\"num_attention_heads\":6,"
			      "\"num_key_value_heads\":3,\"head_dim\":24,\"vocab_size\":99,"
			      "\"attention_bias\":true,\"mlp_bias\":true,"
			      "\"tie_word_embeddings\":true,\"num_hidden_layers\":2,"
			      "\"rms_norm_eps\":1e-05,\"hidden_act\":\"swish\","
			      "\"architectures\":[\"LlamaForCausalLM\"],"
			      "\"quantization_config\":null,\"rope_scaling\":null,"
			      "\"layer_types\":[\"full_attention\",\"full_attention\"]") == 0);
	CHECK(c.head_dim == 24 && c.kv_heads == 3 && c.vocabulary == 99 && c.tied_head);
	CHECK(c.norm_epsilon == 1e-5f && c.layer_count == 2);
	CHECK(c.layers[1].qkv_bias && c.layers[1].o_bias && c.layers[1].mlp_bias);
	model_config_fini(&c);
}

static void
check_rope(const char *members, const float *want, size_t half)
{
	struct model_config c;
	int result = read_config(&c, members);

	CHECK_MSG(result == 0, "%s", refusal.text);
	if (result != 0)
		return;
	CHECK(c.rope.half == half);
	for (size_t i = 0; i < half; i++)
		CHECK_MSG(fabsf(c.rope.frequency[i] / want[i] - 1) < 3e-7f,
		    "%s: %zu: %.9g, not %.9g", members, i, c.rope.frequency[i], want[i]);
	model_config_fini(&c);
}

#define SMALL "\"hidden_size\":64,\"num_attention_heads\":4,"

TEST(rope)
{
	static const float llama3[] = {1, 0.0242403448f, 0.00470075384f, 0.000911583134f,
	    0.000176776681f, 3.42810235e-05f, 6.64786967e-06f, 1.28917316e-06f};
	static const float smooth[] = {1, 0.562341332f, 0.316227764f, 0.177827939f, 0.100000001f,
	    0.0562341288f, 0.0170903075f, 0.00313444831f, 0.000312499993f, 0.000175731664f,
	    9.88211832e-05f, 5.55712322e-05f, 3.12500015e-05f, 1.75731657e-05f, 9.88211832e-06f,
	    5.55712313e-06f};
	static const float linear[] = {0.25f, 0.072495535f, 0.0210224111f, 0.00609612372f,
	    0.00176776701f, 0.000512620842f, 0.000148650885f, 4.31061053e-05f};
	static const float plain[] = {
	    1, 0.215443447f, 0.046415884f, 0.00999999978f, 0.00215443433f, 0.000464158948f};
	static const float old[] = {0.400000006f, 0.1264911f, 0.0399999991f, 0.0126491114f,
	    0.00399999972f, 0.00126491114f, 0.000400000019f, 0.000126491112f};

	check_rope(SMALL
	    "\"max_position_embeddings\":256,\"rope_theta\":500000.0,\"rope_scaling\":{"
	    "\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
	    "\"original_max_position_embeddings\":32,\"rope_type\":\"llama3\"}",
	    llama3, 8);
	check_rope("\"hidden_size\":128,\"num_attention_heads\":4,\"rope_scaling\":{"
		   "\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
		   "\"original_max_position_embeddings\":512,\"rope_type\":\"llama3\"}",
	    smooth, 16);
	check_rope(SMALL
	    "\"max_position_embeddings\":32,\"rope_parameters\":{\"rope_theta\":500000,"
	    "\"factor\":8,\"high_freq_factor\":4,\"low_freq_factor\":1,"
	    "\"rope_type\":\"llama3\"}",
	    llama3, 8);
	check_rope(SMALL "\"rope_theta\":7,\"rope_parameters\":{\"rope_type\":\"linear\","
			 "\"factor\":4.0,\"rope_theta\":20000.0}",
	    linear, 8);
	check_rope(SMALL "\"head_dim\":12,\"rope_parameters\":{\"rope_type\":\"default\","
			 "\"rope_theta\":1e4}",
	    plain, 6);
	check_rope(SMALL "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}", old, 8);
}

/* Members of config.json, and a word that the refusal has to hold. */
static const struct {
	const char *members, *word;
} refused[] = {
    {"\"model_type\":\"gemma\"", "gemma"},
    {"\"model_type\":5", "model_type"},
    {"\"architectures\":[\"LlamaForSequenceClassification\"]", "LlamaForSequenceClassification"},
    {"\"architectures\":\"LlamaForCausalLM\"", "architecture"},
    {"\"hidden_act\":\"gelu\"", "gelu"},
    {"\"hidden_act\":7", "hidden_act"},
    {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}", "yarn"},
    {"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "dynamic"},
    {"\"rope_parameters\":{\"rope_type\":\"longrope\"}", "longrope"},
    {"\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}", "full_attention"},
    {"\"rope_parameters\":{\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
    {"\"rope_parameters\":{\"mrope_section\":[1,2]}", "mrope_section"},
    {"\"rope_parameters\":{\"rope_type\":3}", "rope_type"},
    {"\"rope_scaling\":{\"type\":\"linear\"}", "factor"},
    {"\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}", "factor"},
    {"\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}", "factor"},
    {"\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1}",
	"high_freq_factor"},
    {"\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4}",
	"high_freq_factor"},
    {"\"rope_scaling\":[]", "rope_scaling"},
    {"\"rope_theta\":\"1e4\"", "rope_theta"},
    {"\"rope_theta\":0", "rope_theta"},
    {"\"partial_rotary_factor\":0.5", "partial_rotary_factor"},
    {"\"quantization_config\":{\"quant_method\":\"gptq\"}", "quantization_config"},
    {"\"vision_config\":{\"a\":1}", "vision_config"},
    {"\"sliding_window\":4096", "sliding_window"},
    {"\"num_local_experts\":8", "num_local_experts"},
    {"\"attention_dropout\":0.1", "attention_dropout"},
    {"\"embedding_multiplier\":12.0", "embedding_multiplier"},
    {"\"rope_interleaved\":true", "rope_interleaved"},
    {"\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
	"sliding_attention"},
    {"\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]", "layer_types"},
    {"\"attention_bias\":1", "attention_bias"},
    {"\"mlp_bias\":\"true\"", "mlp_bias"},
    {"\"tie_word_embeddings\":0", "tie_word_embeddings"},
    {"\"hidden_size\":0", "hidden_size"},
    {"\"hidden_size\":-64", "hidden_size"},
    {"\"hidden_size\":64.5", "hidden_size"},
    {"\"hidden_size\":\"64\"", "hidden_size"},
    {"\"vocab_size\":99999999999", "vocab_size"},
    {"\"num_hidden_layers\":1000000", "layers"},
    {"\"num_attention_heads\":5,\"hidden_size\":64", "num_attention_heads"},
    {"\"num_attention_heads\":4,\"num_key_value_heads\":3", "key/value"},
    {"\"head_dim\":15", "odd"},
    {"\"rms_norm_eps\":-1", "rms_norm_eps"},
    {"\"rms_norm_eps\":NaN", "rms_norm_eps"},
};

TEST(refusals)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct model_config c;
		int result = read_config(&c, refused[i].members);

		CHECK_MSG(result == -1 && refusal.status == 422 &&
			      strstr(refusal.text, refused[i].word) != NULL,
		    "%s: \"%s\"", refused[i].members, result != 0 ? refusal.text : "taken");
		CHECK(c.layers == NULL && c.rope.frequency == NULL);
	}
}

/* GGUF metadata of a small model; `more` keys are put by the caller before the tensors. */
struct gguf_case {
	const char *key;
	uint32_t type; /* 4 u32, 6 f32, 8 string (value is the text), 7 bool */
	double value;
	const char *text;
	const char *word; /* of the refusal; NULL = taken */
};

static struct bytes
craft_model(const struct gguf_case *x)
{
	struct bytes b = {NULL, 0};
	float value = (float)x->value;

	put_gguf_head(&b, 3, 2, 9);
	put_key_text(&b, "general.architecture", "llama");
	put_key_u32(&b, "llama.embedding_length", 64);
	put_key_u32(&b, "llama.feed_forward_length", 160);
	put_key_u32(&b, "llama.block_count", 2);
	put_key_u32(&b, "llama.attention.head_count", 4);
	put_key_u32(&b, "llama.context_length", 256);
	put_key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	put_key_f32(&b, "llama.rope.freq_base", 500000);
	put_key(&b, x->key, x->type);
	if (x->type == 8)
		put_text(&b, x->text);
	else if (x->type == 6)
		put(&b, &value, 4);
	else
		put_uint(&b, (uint64_t)x->value, x->type == 7 ? 1 : 4);
	put_tensor(&b, "token_embd.weight", 1, 5, 0, 0);
	put_tensor(&b, "rope_freqs.weight", 8, 0, 0, 32);
	put_padding(&b, 32);
	put_zeros(&b, 32);
	put_floats(&b, 8, 1, 1);
	return b;
}

TEST(gguf_metadata)
{
	static const struct gguf_case cases[] = {
	    {"llama.attention.head_count_kv", 4, 2, NULL, NULL},
	    {"llama.rope.scaling.type", 8, 0, "none", NULL},
	    {"llama.expert_count", 4, 0, NULL, NULL},
	    {"general.name", 8, 0, "anything", NULL},
	    {"llama.attention.head_count_kv", 4, 3, NULL, "key/value"},
	    {"llama.attention.head_count_kv", 6, 2, NULL, "head_count_kv"},
	    {"llama.expert_count", 4, 8, NULL, "expert_count"},
	    {"llama.rope.scaling.type", 8, 0, "yarn", "rope.scaling.type"},
	    {"llama.rope.dimension_count", 4, 8, NULL, "dimension_count"},
	    {"llama.attention.value_length", 4, 8, NULL, "value_length"},
	    {"llama.attention.sliding_window", 4, 4096, NULL, "sliding_window"},
	    {"llama.something_new", 4, 1, NULL, "something_new"},
	    {"llama.attention.causal", 7, 0, NULL, "causal"},
	    {"split.count", 4, 3, NULL, "split.count"},
	    {"llama.vocab_size", 4, 0, NULL, "vocab_size"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes b = craft_model(&cases[i]);
		struct model_config c;
		struct gguf *g;
		int result;

		CHECK(gguf_open(&g, b.data, b.len, "x.gguf", &refusal) == 0);
		result = model_config_from_gguf(&c, g, &refusal);
		if (cases[i].word != NULL)
			CHECK_MSG(result == -1 && strstr(refusal.text, cases[i].word) != NULL,
			    "%s: \"%s\"", cases[i].key, result != 0 ? refusal.text : "taken");
		else
			CHECK_MSG(result == 0, "%s: %s", cases[i].key, refusal.text);
		if (result == 0) {
			CHECK(c.width == 64 && c.head_dim == 16 && c.vocabulary == 5);
			CHECK(c.kv_heads == (i == 0 ? 2u : 4u) && c.tied_head);
			CHECK(c.rope.frequency[0] == 1); /* divided by 1, the next by 2 */
			CHECK(fabsf(c.rope.frequency[1] * 2 - 0.193922758f) < 1e-6f);
		}
		model_config_fini(&c);
		gguf_free(g);
		bytes_free(&b);
	}
}

TEST_MAIN(TEST_CASE(defaults), TEST_CASE(settings), TEST_CASE(rope), TEST_CASE(refusals),
    TEST_CASE(gguf_metadata))
