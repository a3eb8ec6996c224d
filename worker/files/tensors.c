#include "worker/files/tensors.h"

#include <stdio.h>
#include <stdlib.h>

/* Sizes that shapes are made of. */
enum size { ONE, D, QE, GE, F };

enum when { ALWAYS, QKV_BIAS, O_BIAS, MLP_BIAS };

static const struct part {
	const char *name, *gguf;
	enum size rows, cols;
	enum when when;
} layer_parts[] = {
    {"input_layernorm.weight", "attn_norm.weight", ONE, D, ALWAYS},
    {"self_attn.q_proj.weight", "attn_q.weight", QE, D, ALWAYS},
    {"self_attn.q_proj.bias", "attn_q.bias", ONE, QE, QKV_BIAS},
    {"self_attn.k_proj.weight", "attn_k.weight", GE, D, ALWAYS},
    {"self_attn.k_proj.bias", "attn_k.bias", ONE, GE, QKV_BIAS},
    {"self_attn.v_proj.weight", "attn_v.weight", GE, D, ALWAYS},
    {"self_attn.v_proj.bias", "attn_v.bias", ONE, GE, QKV_BIAS},
    {"self_attn.o_proj.weight", "attn_output.weight", D, QE, ALWAYS},
    {"self_attn.o_proj.bias", "attn_output.bias", ONE, D, O_BIAS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", ONE, D, ALWAYS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", F, D, ALWAYS},
    {"mlp.gate_proj.bias", "ffn_gate.bias", ONE, F, MLP_BIAS},
    {"mlp.up_proj.weight", "ffn_up.weight", F, D, ALWAYS},
    {"mlp.up_proj.bias", "ffn_up.bias", ONE, F, MLP_BIAS},
    {"mlp.down_proj.weight", "ffn_down.weight", D, F, ALWAYS},
    {"mlp.down_proj.bias", "ffn_down.bias", ONE, D, MLP_BIAS},
};

enum { LAYER_PARTS = sizeof(layer_parts) / sizeof(layer_parts[0]) };

static size_t
size_of(const struct model_config *c, enum size s)
{
	switch (s) {
	case D:
		return c->width;
	case QE:
		return c->heads * c->head_dim;
	case GE:
		return c->kv_heads * c->head_dim;
	case F:
		return c->mlp_width;
	default:
		return 1;
	}
}

static bool
is_there(const struct model_layer *layer, enum when when)
{
	switch (when) {
	case QKV_BIAS:
		return layer->qkv_bias;
	case O_BIAS:
		return layer->o_bias;
	case MLP_BIAS:
		return layer->mlp_bias;
	default:
		return true;
	}
}

/* Query and key rows are what rotary embedding turns: part names begin attn_q., attn_k. */
static size_t
interleaved(const struct model_config *c, const char *gguf)
{
	if (!c->gguf_interleaved || gguf[0] != 'a' || gguf[6] != '.')
		return 0;
	return gguf[5] == 'q' ? c->heads : gguf[5] == 'k' ? c->kv_heads : 0;
}

static void
layer_tensor(
    struct model_tensor *t, const struct model_config *c, size_t layer, const struct part *part)
{
	snprintf(t->name, sizeof(t->name), "%s.layers.%zu.%s", c->prefix, layer, part->name);
	snprintf(t->gguf, sizeof(t->gguf), "blk.%zu.%s", layer, part->gguf);
	t->rows = size_of(c, part->rows);
	t->cols = size_of(c, part->cols);
	t->vector = part->rows == ONE;
	t->heads = interleaved(c, part->gguf);
}

static void
other_tensor(struct model_tensor *t, const char *prefix, const char *name, const char *gguf,
    size_t rows, size_t cols)
{
	snprintf(t->name, sizeof(t->name), "%s%s", prefix, name);
	snprintf(t->gguf, sizeof(t->gguf), "%s", gguf);
	t->rows = rows;
	t->cols = cols;
}

int
model_tensors(
    struct model_tensor **out, size_t *count, const struct model_config *c, struct refusal *r)
{
	struct model_tensor *t = calloc(3 + c->layer_count * LAYER_PARTS, sizeof(*t));
	size_t n = 0;

	*out = t;
	*count = 0;
	if (t == NULL)
		return refuse(r, 507, "no memory for the list of the model's tensors");
	other_tensor(&t[n++], c->prefix, ".embed_tokens.weight", "token_embd.weight", c->vocabulary,
	    c->width);
	for (size_t i = 0; i < c->layer_count; i++)
		for (size_t p = 0; p < LAYER_PARTS; p++)
			if (is_there(&c->layers[i], layer_parts[p].when))
				layer_tensor(&t[n++], c, i, &layer_parts[p]);
	other_tensor(&t[n++], c->prefix, ".norm.weight", "output_norm.weight", 1, c->width);
	t[n - 1].vector = true;
	if (!c->tied_head)
		other_tensor(
		    &t[n++], "", "lm_head.weight", "output.weight", c->vocabulary, c->width);
	*count = n;
	return 0;
}
