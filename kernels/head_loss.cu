/*
 * Output head, softmax and the gradient behind it, in chunks of rows.
 *
 * Bound: the two products with W (2 * 2 * M * V * D flops). Of the logits, which are read twice,
 * there is one pass for the greatest and the sum of exponentials together, one for the gradient.
 * The sums are as good as in float64.
 */
#include "kernels/blas.h"
#include "kernels/staging.h"
#include "kernels/vector.h"

#include <float.h>

enum {
	CHUNK_ROWS = 1024, /* at most: enough for the product to run at full speed */
	/* At least, whatever the bytes: each chunk reads W twice, so its rows have to be more than
	   the flops that a card does in the time of a byte, 295 on H100. */
	CHUNK_LEAST = 512,
	CHUNK_BYTES = 256 << 20, /* of logits at a time, else */
	PANEL_COLUMNS = 16384,	 /* entries of the vocabulary at a time in the backward product */
	/* Where it is in float32: as one chain of sums, that of a whole vocabulary would be wrong
	   in the fourth digit where its end is small beside what it passes. */
	PANEL_COLUMNS_F32 = 1024
};

/* What the gradient of a row needs. */
struct head_row {
	float most;   /* of its logits */
	float factor; /* coefficient / sum of exp(logit - most) */
	float coefficient;
	int32_t target;
};

/* A thread's logits so far: the greatest, and the sum of exp(logit - most), which is sum - lost: in
   float32, of which A10, L4 and RTX cards do 64 times as many operations as of float64, with what
   the additions lost beside it (Kahan 1965). */
struct partial {
	float most, sum, lost;
};

template <int N>
__device__ __forceinline__ void
softmax_some(size_t i, struct partial &p, const float *row)
{
	floats<N> x = load_some<N>(row, i);
	float most = p.most, part = 0.0f, sum;

#pragma unroll
	for (int j = 0; j < N; j++)
		most = x.at[j] > most ? x.at[j] : most;
	if (most > p.most) {
		float scale = expf(p.most - most);

		p = {most, p.sum * scale, p.lost * scale};
	}
#pragma unroll
	for (int j = 0; j < N; j++)
		part += expf(x.at[j] - most); /* a NaN comes here too */
	part -= p.lost;
	sum = p.sum + part;
	p.lost = (sum - p.sum) - part;
	p.sum = sum;
}

/* One block a row: each thread keeps its own greatest and the sum that belongs to it. A row,
   counted from `first`, whose target is out of range is noted. */
__global__ void
__launch_bounds__(GPU_BLOCK) softmax_kernel(double *logp, struct head_row *rows,
    struct gpu_notes *notes, const float *logits, const int32_t *targets, const float *coefficient,
    size_t first, size_t vocabulary)
{
	__shared__ float part_most[GPU_BLOCK / 32];
	__shared__ double part_sum[GPU_BLOCK / 32];
	const float *row = logits + blockIdx.x * vocabulary;
	struct partial p = {-FLT_MAX, 0.0f, 0.0f};
	double sum;
	float all;

	BLOCK_ELEMENTS(4, whole_rows(vocabulary, logits), vocabulary, softmax_some, p, row);
	all = block_max<GPU_BLOCK>(p.most, part_most);
	sum = ((double)p.sum - (double)p.lost) * (double)expf(p.most - all);
	sum = block_sum<GPU_BLOCK>(sum, part_sum);
	if (threadIdx.x == 0) {
		float c = coefficient != NULL ? coefficient[blockIdx.x] : 0.0f;
		int32_t target = targets[blockIdx.x];

		if (target < 0 || (size_t)target >= vocabulary) {
			atomicMin(&notes->target, (unsigned)(first + blockIdx.x));
			target = 0;
		}
		logp[blockIdx.x] = (double)row[target] - (double)all - log(sum);
		rows[blockIdx.x] = (struct head_row){all, (float)((double)c / sum), c, target};
	}
}

/* target: where in the row its coefficient is taken off. */
template <int N, typename A>
__device__ __forceinline__ void
gradient_some(size_t i, A *gradient, const float *row, const struct head_row &h, size_t target)
{
	floats<N> x = load_some<N>(row, i);

#pragma unroll
	for (int j = 0; j < N; j++) {
		x.at[j] = expf(x.at[j] - h.most) * h.factor;
		if (i + j == target)
			x.at[j] -= h.coefficient;
	}
	store_some<N>(gradient, i, x);
}

/* gradient (rows, size) = coefficient (softmax - onehot)[from .. from+size-1]; one block a row. */
template <typename A>
__global__ void
__launch_bounds__(GPU_BLOCK) gradient_kernel(A *gradient, const struct head_row *rows,
    const float *logits, size_t vocabulary, size_t from, size_t size)
{
	struct head_row h = rows[blockIdx.x];

	BLOCK_ELEMENTS(4, whole_rows(vocabulary | from | size, gradient, logits), size,
	    gradient_some, gradient + blockIdx.x * size, logits + blockIdx.x * vocabulary + from, h,
	    (size_t)h.target - from);
}

struct head_loss {
	const struct op_matrix *w;
	size_t chunk; /* rows at a time */
	size_t panel; /* columns at a time */
	/* in scratch memory */
	float *logits;	       /* (chunk, V) */
	void *gradient;	       /* (chunk, panel) act */
	struct head_row *rows; /* (chunk) */
};

static enum op_status
cut_area(struct op_context *ctx, struct head_loss *h, size_t rows)
{
	size_t v = h->w->rows, at[3] = {0};
	size_t most = size_max(CHUNK_LEAST, CHUNK_BYTES / (v * sizeof(float)));
	void *area;

	h->panel = size_min(v, ctx->compute == OP_F32 ? PANEL_COLUMNS_F32 : PANEL_COLUMNS);
	h->chunk = size_min(rows, size_min(CHUNK_ROWS, most));
	h->chunk = div_up(rows, div_up(rows, h->chunk)); /* all about equally long */
	at[1] = at[0] + line_up(h->chunk * v * sizeof(float));
	at[2] = at[1] + line_up(h->chunk * h->panel * sizeof(float));
	GPU_TRY(gpu_scratch(ctx, &area, at[2] + h->chunk * sizeof(*h->rows)));
	h->logits = (float *)area;
	h->gradient = (char *)area + at[1];
	h->rows = (struct head_row *)((char *)area + at[2]);
	return OP_OK;
}

static enum op_status
chunk_backward(struct op_context *ctx, const struct head_loss *h, float *dh, size_t rows)
{
	size_t vocabulary = h->w->rows;

	for (size_t v = 0; v < vocabulary; v += h->panel) {
		size_t n = size_min(h->panel, vocabulary - v);

		if (ctx->compute == OP_BF16)
			GPU_TRY(GPU_RUN(ctx, gradient_kernel<bf16>, (unsigned)rows, GPU_BLOCK, 0,
			    (bf16 *)h->gradient, h->rows, h->logits, vocabulary, v, n));
		else
			GPU_TRY(GPU_RUN(ctx, gradient_kernel<float>, (unsigned)rows, GPU_BLOCK, 0,
			    (float *)h->gradient, h->rows, h->logits, vocabulary, v, n));
		GPU_TRY(blas_backward(ctx, dh, OP_F32, h->gradient, h->w, v, n, v > 0, rows));
	}
	return OP_OK;
}

enum op_status
op_head_loss(struct op_context *ctx, double *logp, float *dh, const void *hidden,
    const struct op_matrix *w, const int32_t *targets, const float *coefficient, size_t rows)
{
	size_t width = w->cols, size = ctx->compute == OP_BF16 ? sizeof(bf16) : sizeof(float);
	struct head_loss h = {.w = w};

	if (rows == 0)
		return OP_OK;
	GPU_TRY(cut_area(ctx, &h, rows));
	for (size_t m = 0; m < rows; m += h.chunk) {
		size_t n = size_min(h.chunk, rows - m);

		GPU_TRY(blas_forward(
		    ctx, h.logits, OP_F32, (const char *)hidden + m * width * size, w, false, n));
		GPU_TRY(GPU_RUN(ctx, softmax_kernel, (unsigned)n, GPU_BLOCK, 0, logp + m, h.rows,
		    ctx->staging->notes, h.logits, targets + m, dh != NULL ? coefficient + m : NULL,
		    m, w->rows));
		if (dh != NULL)
			GPU_TRY(chunk_backward(ctx, &h, dh + m * width, n));
	}
	return OP_OK;
}
