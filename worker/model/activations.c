#include "worker/model/activations.h"

#include "worker/model/model.h"

/* What a GPU's library asks about an operand's place when it chooses its kernel: with less, how
   many layers are recomputed could be in the bits. */
enum { ALIGNMENT = 256 };

/* Hands out pieces of memory, or only counts where base is 0. */
struct carver {
	uintptr_t base;
	size_t used; /* SIZE_MAX after an overflow */
};

static size_t
largest(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* (rows, cols) elements of `size` bytes; NULL while counting. */
static void *
carve(struct carver *c, size_t rows, size_t cols, size_t size)
{
	const size_t at = c->used;
	size_t bytes;

	if (at == SIZE_MAX)
		return NULL;
	if (__builtin_mul_overflow(rows, cols, &bytes) ||
	    __builtin_mul_overflow(bytes, size, &bytes) ||
	    __builtin_add_overflow(at, bytes, &bytes) || bytes > SIZE_MAX - ALIGNMENT) {
		c->used = SIZE_MAX;
		return NULL;
	}
	c->used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return c->base == 0 ? NULL : (void *)(c->base + at);
}

static void
cut_layer(struct carver *v, struct layer_activations *l, const struct model_config *c,
    const struct activations_shape *s)
{
	const size_t T = s->tokens, D = c->width, F = c->mlp_width;
	const size_t HE = c->heads * c->head_dim, GE = c->kv_heads * c->head_dim;
	const size_t act = activations_size(s), f32 = sizeof(float);

	l->x = carve(v, T, D, f32);
	l->middle = carve(v, T, D, f32);
	l->q = carve(v, T, HE, act);
	if (s->cache == 0) {
		l->k = carve(v, T, GE, act);
		l->v = carve(v, T, GE, act);
	}
	l->attended = carve(v, T, HE, act);
	l->lse = carve(v, T, c->heads, f32);
	l->gate = carve(v, T, F, act);
	l->up = carve(v, T, F, act);
	for (size_t i = 0; i < LINEAR_COUNT; i++)
		l->xa[i] = carve(v, T, s->rank, f32);
}

static void
cut_layers(struct carver *v, struct activations *a, const struct model_config *c,
    const struct activations_shape *s)
{
	const size_t L = c->layer_count, GE = c->kv_heads * c->head_dim;

	cut_layer(v, &a->layers[0], c, s);
	for (size_t i = 1; i < L; i++) {
		if (s->backward && i >= s->recompute) {
			cut_layer(v, &a->layers[i], c, s);
			continue;
		}
		a->layers[i] = a->layers[0];
		if (s->backward)
			a->layers[i].x = carve(v, s->tokens, c->width, sizeof(float));
	}
	a->layers[L].x =
	    s->backward ? carve(v, s->tokens, c->width, sizeof(float)) : a->layers[0].x;
	for (size_t i = 0; s->cache != 0 && i < L; i++) {
		a->layers[i].k = carve(v, s->cache, GE, activations_size(s));
		a->layers[i].v = carve(v, s->cache, GE, activations_size(s));
	}
}

static void
cut_batch(struct carver *v, struct activations *a, const struct activations_shape *s)
{
	a->ids = carve(v, s->tokens, 1, sizeof(int32_t));
	a->position = carve(v, s->tokens, 1, sizeof(int32_t));
	a->rows = carve(v, largest(s->rows, s->logits), 1, sizeof(int32_t));
	a->targets = carve(v, s->rows, 1, sizeof(int32_t));
	a->coefficient = carve(v, s->rows, 1, sizeof(float));
}

/* Within a layer. */
static void
cut_scratch(struct carver *v, struct activations *a, const struct model_config *c,
    const struct activations_shape *s)
{
	const size_t T = s->tokens, D = c->width, F = c->mlp_width;
	const size_t HE = c->heads * c->head_dim, GE = c->kv_heads * c->head_dim;
	const size_t any = largest(D, largest(F, HE));
	const size_t act = activations_size(s), f32 = sizeof(float);

	a->normed = carve(v, T, D, act);
	a->swiglu = carve(v, T, F, act);
	a->rstd = carve(v, T, 1, f32);
	a->dropped = s->dropout ? carve(v, T, any, act) : NULL;
	a->branch = s->act != OP_F32 ? carve(v, T, D, act) : NULL;
	a->wide = s->backward ? carve(v, T, largest(F, HE + 2 * GE), act) : NULL;
	a->wide2 = s->backward ? carve(v, T, largest(F, HE), act) : NULL;
	a->ddropped = s->backward && s->dropout ? carve(v, T, any, act) : NULL;
	a->dnormed = s->backward ? carve(v, T, D, act) : NULL;
	a->dx = s->backward ? carve(v, T, D, f32) : NULL;
}

static void
cut_head(struct carver *v, struct activations *a, const struct model_config *c,
    const struct activations_shape *s)
{
	const size_t rows = largest(s->rows, s->logits), D = c->width;

	a->hidden = carve(v, rows, D, sizeof(float));
	a->head_in = carve(v, rows, D, activations_size(s));
	a->head_rstd = carve(v, rows, 1, sizeof(float));
	a->logp = carve(v, s->rows, 1, sizeof(double));
	a->dhead = s->backward ? carve(v, s->rows, D, sizeof(float)) : NULL;
	a->dhidden = s->backward ? carve(v, s->rows, D, sizeof(float)) : NULL;
	a->logits = carve(v, s->logits, c->vocabulary, sizeof(float));
}

size_t
activations_cut(struct activations *a, const struct model_config *c,
    const struct activations_shape *shape, void *memory)
{
	struct carver v = {.base = (uintptr_t)memory};

	a->shape = *shape;
	cut_batch(&v, a, shape);
	cut_layers(&v, a, c, shape);
	cut_scratch(&v, a, c, shape);
	cut_head(&v, a, c, shape);
	return v.used;
}
