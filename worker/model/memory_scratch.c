#include "worker/model/memory_scratch.h"

#include <string.h>

#include "kernels/device.h"
#include "worker/model/model.h"

/* The sizes that kernels/ uses, in the files named. */
enum {
	ATTENTION_BLOCK = 64,	     /* attention.h: queries of a block */
	LORA_ROWS = 64,		     /* lora.c */
	LORA_GRADIENT_ROWS = 256,    /* lora.c */
	LINEAR_BYTES = 32 << 20,     /* linear.c: results at a time */
	HEAD_BYTES = 32 << 20,	     /* head_loss.c: logits at a time */
	HEAD_PANEL = 4096,	     /* head_loss.c */
	PANEL_X = 8 << 20,	     /* gemm.c: converted activations and weights at a time */
	PANEL_W = 4 << 20,	     /* gemm.c */
	CUDA_PARTS = 3,		     /* lora_parts.h: bfloat16 parts of a float32 */
	CUDA_SHARED_RANK = 64,	     /* lora_parts.h */
	CUDA_HEAD_ROWS = 1024,	     /* head_loss.cu */
	CUDA_HEAD_LEAST = 512,	     /* head_loss.cu */
	CUDA_HEAD_BYTES = 256 << 20, /* head_loss.cu */
	CUDA_HEAD_PANEL = 16384,     /* head_loss.cu */
	CUDA_HEAD_PANEL_F32 = 1024,  /* head_loss.cu */
	CUDA_LINE = 256,	     /* gpu.h: line_up */
	CUDA_TILE = 2 * 12,	     /* tiles.cu: two tiles; each sequence has these at least */
};

struct sizes {
	const struct memory_backend *backend;
	const struct model_config *c;
	const struct activations_shape *s;
	size_t most; /* bytes of the op that asks for most, so far */
	bool overflow;
};

static size_t
larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t
smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t
up(size_t n, size_t unit)
{
	return (n / unit + (n % unit != 0)) * unit;
}

/* a * b * c bytes in whole lines, as the backend cuts its scratch. Anything above a quarter of what
   can be is an overflow, so that a few of these can be added up. */
static size_t
area(struct sizes *z, size_t a, size_t b, size_t c)
{
	size_t n;

	if (__builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, c, &n) ||
	    n > SIZE_MAX / 16) {
		z->overflow = true;
		return 0;
	}
	return up(n, z->backend->cuda ? CUDA_LINE : 64);
}

static void
need(struct sizes *z, size_t bytes)
{
	z->most = larger(z->most, bytes);
}

static size_t
for_each_thread(struct sizes *z, size_t bytes)
{
	return area(z, bytes, z->backend->threads, 1);
}

static void
attention(struct sizes *z)
{
	const size_t T = z->s->tokens, E = z->c->head_dim, H = z->c->heads;
	const size_t wide = z->s->act == OP_BF16 ? 4 : 0;
	const size_t scores = area(z, ATTENTION_BLOCK, T, 4), kv = 2 * area(z, T, E, wide);

	need(z, area(z, T, z->c->rope.half, 8));
	need(z, for_each_thread(z, scores + area(z, ATTENTION_BLOCK, E, 4) +
				       area(z, ATTENTION_BLOCK, E, wide) + kv));
	if (z->s->backward)
		need(z, 2 * area(z, T, H * E, 4) +
			    for_each_thread(
				z, 2 * scores + 4 * area(z, ATTENTION_BLOCK, E, wide) + kv));
}

/* What a product gives before it is rounded. */
static void
linear(struct sizes *z, size_t outputs)
{
	const size_t most = larger(64, LINEAR_BYTES / (4 * outputs));

	need(z, area(z, smaller(z->s->tokens, most), outputs, 4));
}

static void
lora(struct sizes *z, size_t outputs, size_t inputs)
{
	const size_t T = z->s->tokens, R = z->s->rank, threads = z->backend->threads;
	const size_t part = up(up(larger(outputs, inputs), 16) / 16, threads) / threads * 16;
	size_t block = 0, gradient = 0;

	if (z->s->act == OP_BF16) {
		block = area(z, LORA_ROWS, outputs, 4) + area(z, LORA_ROWS, inputs, 4);
		gradient = area(z, LORA_GRADIENT_ROWS, part, 4);
	}
	need(z, for_each_thread(z, block));
	if (z->s->backward)
		need(z, area(z, T, R, 4) + for_each_thread(z, larger(block, gradient)));
}

/* Rows of logits at once: as many as the largest chunk of any number of rows up to these. */
static size_t
head_rows(const struct sizes *z, size_t stride)
{
	return smaller(z->s->rows, up(larger(16, HEAD_BYTES / (stride * sizeof(float))), 8));
}

static void
head(struct sizes *z)
{
	const size_t V = z->c->vocabulary;
	const size_t stride = !z->backend->native_bf16 && V % 1024 == 0 ? V + 16 : V;
	const size_t rows = head_rows(z, stride);

	need(z, area(z, rows, stride, 4) + area(z, rows, 4, 1) +
		    area(z, rows, smaller(HEAD_PANEL, V), 4));
}

/* gemm.c: x (tokens, width) and W (rows, cols), both converted to float32 in pieces. */
static size_t
panel(struct sizes *z, size_t tokens, size_t width, size_t rows, size_t cols)
{
	const size_t x = smaller(tokens, larger(16, PANEL_X / (4 * width)));
	const size_t w = smaller(rows, larger(16, PANEL_W / (4 * cols)));

	return area(z, x, width, 4) + area(z, w, cols, 4);
}

static size_t
panels(struct sizes *z)
{
	const size_t T = z->s->tokens, D = z->c->width, V = z->c->vocabulary;
	const size_t columns = smaller(HEAD_PANEL, V), M = head_rows(z, V);
	size_t most = larger(panel(z, M, D, V, D), panel(z, M, columns, columns, D));

	for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
		size_t N, K;

		model_linear_shape(z->c, i, &N, &K);
		most = larger(most, panel(z, T, K, N, K));
		if (z->s->backward)
			most = larger(most, panel(z, T, N, N, K));
	}
	return most;
}

static size_t
cpu(struct sizes *z)
{
	attention(z);
	for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
		size_t outputs, inputs;

		model_linear_shape(z->c, i, &outputs, &inputs);
		if (z->s->act == OP_BF16)
			linear(z, z->s->backward ? larger(outputs, inputs) : outputs);
		if (z->s->rank != 0)
			lora(z, outputs, inputs);
	}
	head(z);
	return z->most + (z->s->act == OP_BF16 && !z->backend->native_bf16 ? panels(z) : 0);
}

/* lora.cu: areas_cut, each in whole lines, of linear layers first .. first+count-1 together. */
static void
cuda_pairs(struct sizes *z, enum model_linear first, size_t count)
{
	const size_t T = z->s->tokens, one = up(CUDA_PARTS * z->s->rank, 8), all = count * one;
	size_t bytes = area(z, T, all, 4) + area(z, T, all, 2), N, K = 0;

	for (size_t i = 0; i < count; i++) {
		model_linear_shape(z->c, first + i, &N, &K);
		bytes += area(z, N, one, 2);
		if (z->s->backward)
			bytes += area(z, T, one, 2) + area(z, N, one, 4);
	}
	bytes += area(z, all, K, 2);
	if (z->s->backward)
		bytes += area(z, T, all, 2) + area(z, all, K, 4);
	need(z, bytes);
}

/* The same, or of one after another where their rank is high. */
static void
cuda_lora(struct sizes *z, enum model_linear first, size_t count)
{
	const size_t step = z->s->rank <= CUDA_SHARED_RANK ? count : 1;

	for (size_t i = 0; i < count; i += step)
		cuda_pairs(z, first + i, step);
}

static size_t
cuda(struct sizes *z)
{
	const size_t T = z->s->tokens, R = z->s->rank, H = z->c->heads, V = z->c->vocabulary;
	const size_t rows = smaller(z->s->rows,
	    smaller(CUDA_HEAD_ROWS, larger(CUDA_HEAD_LEAST, CUDA_HEAD_BYTES / (4 * V))));
	const size_t panel = z->s->act == OP_F32 ? CUDA_HEAD_PANEL_F32 : CUDA_HEAD_PANEL;

	need(z, area(z, T, H, z->s->act == OP_F32 ? 4 : 8)); /* attention's sums of rows */
	need(z, area(z, rows, V, 4) + area(z, rows, smaller(V, panel), 4) + area(z, rows, 16, 1));
	if (R != 0 && z->s->act == OP_F32 && z->s->backward)
		need(z, area(z, T, R, 4));
	if (R != 0 && z->s->act != OP_F32) {
		cuda_lora(z, LINEAR_Q, 3);
		cuda_lora(z, LINEAR_O, 1);
		cuda_lora(z, LINEAR_GATE, 2);
		cuda_lora(z, LINEAR_DOWN, 1);
	}
	return z->most + area(z, T, CUDA_TILE, 1);
}

struct memory_backend
memory_backend_of(const struct op_context *ops)
{
	return (struct memory_backend){.cuda = strcmp(device_backend(), "cuda") == 0,
	    .native_bf16 = op_native_bf16(ops),
	    .threads = (size_t)op_threads(ops)};
}

size_t
memory_scratch(const struct memory_backend *backend, const struct model_config *c,
    const struct activations_shape *shape)
{
	struct sizes z = {.backend = backend, .c = c, .s = shape};
	const size_t bytes = backend->cuda ? cuda(&z) : cpu(&z);

	return z.overflow ? SIZE_MAX : bytes;
}
