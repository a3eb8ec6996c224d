#include "worker/model/forward.h"

#include <stdio.h>

enum op_status
forward_dropout(const struct pass *p, const void **out, const void *x, size_t layer,
    enum model_linear which, size_t inputs)
{
	*out = x;
	if (p->dropout == 0)
		return OP_OK;
	*out = p->acts->dropped;
	return op_dropout(p->model->ops, p->acts->dropped, x, p->dropout,
	    pass_dropout_seed(p, layer, which), p->first_token * inputs,
	    p->batch->packing.tokens * inputs);
}

/* out[i] = the adapter's share of linear layers first .. first+count-1, those that have one; they
   read x (T, K) act, and each has its own dropout on x, where there is one. */
static enum op_status
lora(const struct pass *p, void *const *out, const void *x, size_t layer, enum model_linear first,
    size_t count)
{
	struct op_context *ops = p->model->ops;
	const struct op_matrix *w = &p->model->blocks[layer].linear[first].w;
	const size_t T = p->batch->packing.tokens, K = w->cols;
	struct op_lora_linear group[OP_LORA_GROUP];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct pass_lora *l = pass_lora_at(p, layer, first + i);
		const void *dropped;

		if (l == NULL)
			continue;
		group[n++] = (struct op_lora_linear){.lora = l->lora,
		    .outputs = p->model->blocks[layer].linear[first + i].w.rows,
		    .xa = p->acts->layers[layer].xa[first + i],
		    .out = out[i]};
		if (p->dropout == 0)
			continue;
		OP_TRY(forward_dropout(p, &dropped, x, layer, first + i, K));
		OP_TRY(op_lora(ops, &group[--n], 1, dropped, T, K));
	}
	return n != 0 ? op_lora(ops, group, n, x, T, K) : OP_OK;
}

/* out[i] (T, N) act = W x + b, and the adapter's share, of linear layers first .. first+count-1;
   x (T, K) act. */
static enum op_status
linears(const struct pass *p, void *const *out, const void *x, size_t layer,
    enum model_linear first, size_t count)
{
	OP_TRY(lora(p, out, x, layer, first, count));
	for (size_t i = 0; i < count; i++) {
		const struct model_weights *m = &p->model->blocks[layer].linear[first + i];
		const bool accumulate = pass_lora_at(p, layer, first + i) != NULL;

		OP_TRY(op_linear(p->model->ops, out[i], x, &m->w, m->bias, accumulate,
		    p->batch->packing.tokens));
	}
	return OP_OK;
}

static enum op_status
turn(const struct pass *p, void *x, size_t heads)
{
	const struct model_config *c = p->model->config;

	return op_rope(p->model->ops, x, &p->batch->packing, p->model->frequency, c->rope.half,
	    c->rope.magnitude, false, heads, c->head_dim);
}

/* normed (T, D) act = the norm of x (T, D). */
static enum op_status
norm(const struct pass *p, const float *x, const float *weight)
{
	const struct model_config *c = p->model->config;

	return op_rmsnorm(p->model->ops, p->acts->normed, p->acts->rstd, x, weight, c->norm_epsilon,
	    c->norm_one_plus, p->batch->packing.tokens, c->width);
}

/* out (T, D) float32 = x + W y + b, and the adapter's share; y (T, K) act. And of it the norm that
   comes next, in the same pass over it, unless its weight is NULL. */
static enum op_status
linear_residual(const struct pass *p, float *out, const float *x, const void *y, size_t layer,
    enum model_linear which, const float *next)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const size_t T = p->batch->packing.tokens, D = c->width;
	void *branch = a->shape.act == OP_F32 ? out : a->branch;

	OP_TRY(linears(p, &branch, y, layer, which, 1));
	if (next == NULL)
		return op_add(ops, out, x, branch, T * D);
	return op_add_rmsnorm(
	    ops, a->normed, a->rstd, out, x, branch, next, c->norm_epsilon, c->norm_one_plus, T, D);
}

static struct op_attention_shape
attention_shape(const struct model_config *c, size_t layer)
{
	return (struct op_attention_shape){
	    .heads = c->heads,
	    .kv_heads = c->kv_heads,
	    .head_dim = c->head_dim,
	    .window = c->layers[layer].window,
	    .scale = c->score_scale,
	};
}

/* middle = x + o(attention(q, k, v)) with q, k, v from normed = norm(x); and normed = norm(middle)
 */
static enum op_status
attention(const struct pass *p, size_t layer)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const struct layer_activations *l = &a->layers[layer];
	const struct op_packing *packing = &p->batch->packing;
	const struct op_attention_shape shape = attention_shape(c, layer);
	const size_t at = p->past * c->kv_heads * c->head_dim * (a->shape.act == OP_F32 ? 4 : 2);
	void *k = (char *)l->k + at, *v = (char *)l->v + at;

	OP_TRY(linears(p, (void *[]){l->q, k, v}, a->normed, layer, LINEAR_Q, 3));
	OP_TRY(turn(p, l->q, c->heads));
	OP_TRY(turn(p, k, c->kv_heads));
	if (p->past != 0)
		OP_TRY(
		    op_attention_cached(ops, l->attended, l->q, l->k, l->v, p->past + 1, &shape));
	else
		OP_TRY(op_attention(ops, l->attended, l->lse, l->q, l->k, l->v, packing, &shape));
	return linear_residual(
	    p, l->middle, l->x, l->attended, layer, LINEAR_O, p->model->blocks[layer].mlp_norm);
}

/* swiglu = silu(gate) * up, with gate, up from normed = norm(middle) */
static enum op_status
gates(const struct pass *p, size_t layer)
{
	const struct activations *a = p->acts;
	const struct layer_activations *l = &a->layers[layer];

	OP_TRY(linears(p, (void *[]){l->gate, l->up}, a->normed, layer, LINEAR_GATE, 2));
	return op_swiglu(p->model->ops, a->swiglu, l->gate, l->up,
	    p->batch->packing.tokens * p->model->config->mlp_width);
}

/* next layer's x = middle + down(swiglu); and normed = the norm of that x by `next`, unless NULL */
static enum op_status
mlp(const struct pass *p, size_t layer, const float *next)
{
	const struct activations *a = p->acts;

	OP_TRY(gates(p, layer));
	return linear_residual(p, a->layers[layer + 1].x, a->layers[layer].middle, a->swiglu, layer,
	    LINEAR_DOWN, next);
}

enum op_status
forward_again(const struct pass *p, size_t layer)
{
	const struct activations *a = p->acts;
	/* Nobody reads the adapter's share of `down`: where there is room at this time. */
	void *unread = a->shape.act == OP_F32 ? a->dnormed : a->branch;

	OP_TRY(norm(p, a->layers[layer].x, p->model->blocks[layer].attention_norm));
	OP_TRY(attention(p, layer));
	OP_TRY(gates(p, layer));
	return lora(p, &unread, a->swiglu, layer, LINEAR_DOWN, 1);
}

enum op_status
forward_layers(const struct pass *p)
{
	const struct model *m = p->model;
	const size_t L = m->config->layer_count;
	float *x = p->acts->layers[0].x;

	OP_TRY(op_embed(m->ops, x, &m->embedding, p->batch->ids, p->batch->packing.tokens));
	OP_TRY(norm(p, x, m->blocks[0].attention_norm));
	for (size_t layer = 0; layer < L; layer++) {
		OP_TRY(attention(p, layer));
		OP_TRY(mlp(p, layer, layer + 1 < L ? m->blocks[layer + 1].attention_norm : NULL));
	}
	return OP_OK;
}

/* head_in (M, D) = norm of the stack's output at the batch's rows */
static enum op_status
head_input(const struct pass *p)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const size_t M = p->batch->row_count;

	OP_TRY(op_gather_rows(
	    ops, a->hidden, a->layers[c->layer_count].x, p->batch->rows, M, c->width));
	return op_rmsnorm(ops, a->head_in, a->head_rstd, a->hidden, p->model->norm, c->norm_epsilon,
	    c->norm_one_plus, M, c->width);
}

enum op_status
forward_loss(const struct pass *p)
{
	const struct pass_batch *b = p->batch;
	const struct activations *a = p->acts;

	OP_TRY(head_input(p));
	return op_head_loss(p->model->ops, a->logp, a->dhead, a->head_in, &p->model->head,
	    b->targets, b->coefficient, b->row_count);
}

enum op_status
forward_logits(const struct pass *p)
{
	OP_TRY(head_input(p));
	return op_logits(
	    p->model->ops, p->acts->logits, p->acts->head_in, &p->model->head, p->batch->row_count);
}

enum op_status
forward_blame(const struct pass *p, char *name, size_t size)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct layer_activations *layers = p->acts->layers;
	const size_t n = p->batch->packing.tokens * c->width;
	char module[200];
	size_t at;

	OP_TRY(op_first_nonfinite(ops, &at, layers[0].x, n));
	if (at < n) {
		snprintf(name, size, "the output of %s.embed_tokens", c->prefix);
		return OP_OK;
	}
	for (size_t l = 0; l < c->layer_count; l++) {
		if (l < p->acts->shape.recompute)
			OP_TRY(forward_again(p, l)); /* its middle was another layer's since */
		OP_TRY(op_first_nonfinite(ops, &at, layers[l].middle, n));
		model_module_name(module, sizeof(module), c, l, at < n ? "self_attn" : "mlp");
		if (at == n)
			OP_TRY(op_first_nonfinite(ops, &at, layers[l + 1].x, n));
		if (at < n) {
			snprintf(name, size, "the output of %s", module);
			return OP_OK;
		}
	}
	snprintf(name, size, "the logits");
	return OP_OK;
}
