#include "worker/model/backward.h"

#include "worker/model/forward.h"

/* Has any of linear layers first .. first+count-1 an adapter? */
static bool
adapted(const struct pass *p, size_t layer, enum model_linear first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pass_lora_at(p, layer, first + i) != NULL)
			return true;
	return false;
}

/* The first layer with an adapted linear layer, or L: below it no gradient is needed. */
static size_t
lowest_adapted(const struct pass *p)
{
	const size_t L = p->model->config->layer_count;

	for (size_t layer = 0; layer < L; layer++)
		if (adapted(p, layer, 0, LINEAR_COUNT))
			return layer;
	return L;
}

/* A float32 gradient (n) in the activation type: as it is, or rounded into `rounded`. */
static enum op_status
narrow(const struct pass *p, const void **out, void *rounded, const float *dout, size_t n)
{
	*out = dout;
	if (p->acts->shape.act == OP_F32)
		return OP_OK;
	*out = rounded;
	return op_round(p->model->ops, rounded, dout, n);
}

/* acts->dx in the activation type: itself, or, in bfloat16, what the norm that last added to it
   left in dnormed. */
static const void *
narrow_dx(const struct activations *a)
{
	return a->shape.act == OP_F32 ? (const void *)a->dx : a->dnormed;
}

/* dx += what dnormed is after a norm of x (T, D), whose rstd is in acts. */
static enum op_status
norm_backward(const struct pass *p, const float *x, const float *weight)
{
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;

	return op_rmsnorm_backward(p->model->ops, a->dx, a->shape.act == OP_F32 ? NULL : a->dnormed,
	    a->dnormed, x, weight, a->rstd, c->norm_one_plus, p->batch->packing.tokens, c->width);
}

/* The adapter's share on one linear layer behind dropout: dx (T, K) = or +=. */
static enum op_status
lora_dropped(const struct pass *p, void *dx, bool accumulate, const struct op_lora_linear *l,
    const void *x, size_t layer, enum model_linear which)
{
	struct op_context *ops = p->model->ops;
	const struct activations *a = p->acts;
	const size_t T = p->batch->packing.tokens;
	const size_t K = p->model->blocks[layer].linear[which].w.cols, n = T * K;

	OP_TRY(forward_dropout(p, &x, x, layer, which, K));
	if (dx == NULL)
		return op_lora_backward(ops, NULL, l, 1, x, T, K);
	OP_TRY(op_lora_backward(ops, a->ddropped, l, 1, x, T, K));
	return op_dropout_backward(ops, dx, a->ddropped, p->dropout,
	    pass_dropout_seed(p, layer, which), p->first_token * K, accumulate, n);
}

/* The adapter's share on linear layers first .. first+count-1, which read x (T, K): da, db += and,
   unless it is NULL or none is adapted, dx (T, K) =. All but da and db act, as dout[i] (T, N). */
static enum op_status
lora_backward(const struct pass *p, void *dx, const void *const *dout, const void *x, size_t layer,
    enum model_linear first, size_t count)
{
	const struct model_weights *m = &p->model->blocks[layer].linear[first];
	struct op_lora_linear group[OP_LORA_GROUP];
	bool written = false;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct pass_lora *l = pass_lora_at(p, layer, first + i);

		if (l == NULL)
			continue;
		group[n++] = (struct op_lora_linear){.lora = l->lora,
		    .outputs = m[i].w.rows,
		    .xa = p->acts->layers[layer].xa[first + i],
		    .dout = dout[i],
		    .da = l->da,
		    .db = l->db};
		if (p->dropout != 0)
			OP_TRY(lora_dropped(p, dx, written, &group[--n], x, layer, first + i));
		written = true;
	}
	return n == 0 ? OP_OK
		      : op_lora_backward(
			    p->model->ops, dx, group, n, x, p->batch->packing.tokens, m->w.cols);
}

/* dx (T, K) act = the sum of W^T dout[i] and the adapter's shares, of linear layers first ..
   first+count-1, which read x. dout[i] (T, N) act. */
static enum op_status
linears_backward(const struct pass *p, void *dx, const void *const *dout, const void *x,
    size_t layer, enum model_linear first, size_t count)
{
	const bool written = adapted(p, layer, first, count);

	OP_TRY(lora_backward(p, dx, dout, x, layer, first, count));
	for (size_t i = 0; i < count; i++)
		OP_TRY(op_linear_backward(p->model->ops, dx, dout[i],
		    &p->model->blocks[layer].linear[first + i].w, written || i > 0,
		    p->batch->packing.tokens));
	return OP_OK;
}

/* dx, the gradient after the layer, becomes the gradient at its middle. `fresh`: the layer's
   forward pass was the last, so that what it left within the layer is there. */
static enum op_status
mlp_backward(const struct pass *p, size_t layer, bool fresh)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const struct layer_activations *l = &a->layers[layer];
	const float *norm = p->model->blocks[layer].mlp_norm;
	const size_t T = p->batch->packing.tokens, D = c->width, n = T * c->mlp_width;
	void *dgate = a->wide, *dup = a->wide2;
	const void *dx = narrow_dx(a);

	if (!fresh && pass_lora_at(p, layer, LINEAR_DOWN) != NULL) /* who reads it */
		OP_TRY(op_swiglu(ops, a->swiglu, l->gate, l->up, n));
	OP_TRY(linears_backward(p, dgate, &dx, a->swiglu, layer, LINEAR_DOWN, 1));
	OP_TRY(op_swiglu_backward(ops, dgate, dup, dgate, l->gate, l->up, n));
	if (!fresh)
		OP_TRY(op_rmsnorm(ops, a->normed, a->rstd, l->middle, norm, c->norm_epsilon,
		    c->norm_one_plus, T, D));
	OP_TRY(linears_backward(
	    p, a->dnormed, (const void *[]){dgate, dup}, a->normed, layer, LINEAR_GATE, 2));
	return norm_backward(p, l->middle, norm);
}

/* dq, dk, dv from dx, the gradient at the layer's middle: through o, attention and RoPE. */
static enum op_status
scores_backward(const struct pass *p, void *dq, void *dk, void *dv, size_t layer)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const struct layer_activations *l = &a->layers[layer];
	const struct op_packing *packing = &p->batch->packing;
	const struct op_attention_shape shape = {
	    .heads = c->heads,
	    .kv_heads = c->kv_heads,
	    .head_dim = c->head_dim,
	    .window = c->layers[layer].window,
	    .scale = c->score_scale,
	};
	void *dattended = a->wide2;
	const void *dx = narrow_dx(a);

	OP_TRY(linears_backward(p, dattended, &dx, l->attended, layer, LINEAR_O, 1));
	OP_TRY(op_attention_backward(
	    ops, dq, dk, dv, dattended, l->attended, l->lse, l->q, l->k, l->v, packing, &shape));
	OP_TRY(op_rope(ops, dq, packing, p->model->frequency, c->rope.half, c->rope.magnitude, true,
	    c->heads, c->head_dim));
	return op_rope(ops, dk, packing, p->model->frequency, c->rope.half, c->rope.magnitude, true,
	    c->kv_heads, c->head_dim);
}

/* dx, the gradient at the layer's middle, becomes the gradient of what entered the layer; in the
   lowest adapted layer only A and B of q, k and v are served and dx is left as it is. */
static enum op_status
attention_backward(const struct pass *p, size_t layer, bool lowest)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const struct layer_activations *l = &a->layers[layer];
	const float *norm = p->model->blocks[layer].attention_norm;
	const size_t T = p->batch->packing.tokens, D = c->width, act = activations_size(&a->shape);
	char *dq = a->wide, *dk = dq + T * c->heads * c->head_dim * act;
	char *dv = dk + T * c->kv_heads * c->head_dim * act;
	const void *const dout[] = {dq, dk, dv};

	OP_TRY(scores_backward(p, dq, dk, dv, layer));
	OP_TRY(op_rmsnorm(
	    ops, a->normed, a->rstd, l->x, norm, c->norm_epsilon, c->norm_one_plus, T, D));
	if (lowest)
		return lora_backward(p, NULL, dout, a->normed, layer, LINEAR_Q, 3);
	OP_TRY(linears_backward(p, a->dnormed, dout, a->normed, layer, LINEAR_Q, 3));
	return norm_backward(p, l->x, norm);
}

/* dx (T, D) = gradient of the stack's output: not zero only in the supervised rows. */
static enum op_status
head_backward(const struct pass *p)
{
	struct op_context *ops = p->model->ops;
	const struct model_config *c = p->model->config;
	const struct activations *a = p->acts;
	const size_t T = p->batch->packing.tokens, M = p->batch->row_count, D = c->width;
	const void *dhead, *dx;

	/* What went into the head is not needed any more. */
	OP_TRY(narrow(p, &dhead, a->head_in, a->dhead, M * D));
	OP_TRY(op_zero(ops, a->dhidden, M * D * sizeof(float)));
	OP_TRY(op_rmsnorm_backward(ops, a->dhidden, NULL, dhead, a->hidden, p->model->norm,
	    a->head_rstd, c->norm_one_plus, M, D));
	OP_TRY(op_zero(ops, a->dx, T * D * sizeof(float)));
	OP_TRY(op_scatter_rows(ops, a->dx, a->dhidden, p->batch->rows, M, D));
	return narrow(p, &dx, a->dnormed, a->dx, T * D);
}

enum op_status
backward_layers(const struct pass *p)
{
	const size_t lowest = lowest_adapted(p), L = p->model->config->layer_count;

	OP_TRY(head_backward(p));
	for (size_t layer = L; layer-- > lowest;) {
		/* Of those that share their memory the last is still there from the forward pass.
		 */
		const bool again = layer + 1 < p->acts->shape.recompute;

		if (again)
			OP_TRY(forward_again(p, layer));
		OP_TRY(mlp_backward(p, layer, again || layer + 1 == L));
		OP_TRY(attention_backward(p, layer, layer == lowest));
	}
	return OP_OK;
}
