/*
 * Output head, softmax and the gradient behind it, in chunks of rows.
 *
 * Bound: the two products with W (2 * 2 * M * V * D flops); the passes over the logits are a few
 * percent. The logits of a chunk stay in scratch memory until the backward product, which would
 * cost half of the head's flops to compute again. The sum of exponentials is in float64: float32
 * in one lane is off by 7e-6 at 49,152 entries.
 */
#include "kernels/element.h"
#include "kernels/exponential.h"
#include "kernels/gemm.h"

#include <math.h>

enum {
	CHUNK = 32 << 20, /* bytes of logits at a time */
	PANEL = 4096	  /* entries of the vocabulary at a time in the backward product */
};

struct head_loss {
	double *logp;
	const struct op_matrix *w;
	const int32_t *targets;
	const float *coefficient;
	float *logits; /* (chunk, V), rows `stride` apart; in the end exp(logit - most) */
	size_t stride;
	float *factor;	/* (chunk): coefficient / sum of the exponentials */
	void *gradient; /* (chunk, PANEL) act, dense */
};

/* log softmax of one row at its target; the row becomes exp(logit - most), not normalized. */
static void
softmax_row(const struct head_loss *h, size_t chunk, size_t i)
{
	float *row = h->logits + i * h->stride, most = -INFINITY;
	double target = (double)row[h->targets[chunk + i]], sum = 0.0;
	size_t vocabulary = h->w->rows;

#pragma omp simd reduction(max : most)
	for (size_t v = 0; v < vocabulary; v++)
		most = most > row[v] ? most : row[v];
#pragma omp simd reduction(+ : sum)
	for (size_t v = 0; v < vocabulary; v++) {
		float e = exponential(row[v] - most);

		row[v] = e;
		sum += (double)e;
	}
	h->logp[chunk + i] = target - (double)most - log(sum);
	if (h->coefficient != NULL)
		h->factor[i] = (float)((double)h->coefficient[chunk + i] / sum);
}

/* gradient[i] (size) = coefficient * (softmax - onehot)[from .. from+size-1] of row i. */
static void
gradient_row(const struct op_context *ctx, const struct head_loss *h, size_t chunk, size_t i,
    size_t from, size_t size)
{
	const float *row = h->logits + i * h->stride + from;
	size_t target = (size_t)h->targets[chunk + i];

	for (size_t v = 0; v < size; v += ELEMENT_BLOCK) {
		size_t n = size_min(ELEMENT_BLOCK, size - v);
		float block[ELEMENT_BLOCK];

#pragma omp simd
		for (size_t j = 0; j < n; j++)
			block[j] = row[v + j] * h->factor[i];
		if (target >= from + v && target < from + v + n)
			block[target - from - v] -= h->coefficient[chunk + i];
		element_store(h->gradient, i * size + v, block, n, ctx->compute);
	}
}

static enum op_status
chunk_backward(
    struct op_context *ctx, const struct head_loss *h, float *dh, size_t chunk, size_t rows)
{
	enum op_status status = OP_OK;

	for (size_t v = 0; v < h->w->rows && status == OP_OK; v += PANEL) {
		size_t n = size_min(PANEL, h->w->rows - v);

#pragma omp parallel for num_threads(op_team(ctx, rows *n)) schedule(static)
		for (size_t i = 0; i < rows; i++)
			gradient_row(ctx, h, chunk, i, v, n);
		status = gemm_backward(
		    ctx, dh + chunk * h->w->cols, h->gradient, h->w, v, n, v > 0, rows);
	}
	return status;
}

/* Rows of a chunk, all chunks about equally long. */
static size_t
chunk_rows(size_t rows, size_t stride)
{
	size_t most = size_max(16, CHUNK / (stride * sizeof(float)));

	return div_up(div_up(rows, div_up(rows, most)), 8) * 8;
}

enum op_status
op_head_loss(struct op_context *ctx, double *logp, float *dh, const void *hidden,
    const struct op_matrix *w, const int32_t *targets, const float *coefficient, size_t rows)
{
	struct head_loss h = {.logp = logp,
	    .w = w,
	    .targets = targets,
	    .coefficient = dh != NULL ? coefficient : NULL,
	    .stride = gemm_stride(ctx, w->rows)};
	size_t chunk, logit_bytes, factor_bytes;
	void *area;
	enum op_status status;

	if (rows == 0)
		return OP_OK;
	for (size_t m = 0; m < rows; m++)
		if (targets[m] < 0 || (size_t)targets[m] >= w->rows)
			return op_fail(
			    ctx, OP_UNSUPPORTED, "target id %d of %zu", (int)targets[m], w->rows);
	chunk = size_min(rows, chunk_rows(rows, h.stride));
	logit_bytes = line_up(chunk * h.stride * sizeof(float));
	factor_bytes = line_up(chunk * sizeof(float));
	status = op_scratch(ctx, &area,
	    logit_bytes + factor_bytes + chunk * size_min(PANEL, w->rows) * sizeof(float));
	h.logits = area;
	h.factor = (float *)((char *)area + logit_bytes);
	h.gradient = (char *)area + logit_bytes + factor_bytes;
	for (size_t m = 0; m < rows && status == OP_OK; m += chunk) {
		size_t n = size_min(chunk, rows - m);

		status = gemm_forward(ctx, h.logits, h.stride,
		    element_at(hidden, m * w->cols, ctx->compute), w, false, n);
		if (status != OP_OK)
			break;
#pragma omp parallel for num_threads(op_team(ctx, n * w->rows)) schedule(static)
		for (size_t i = 0; i < n; i++)
			softmax_row(&h, m, i);
		if (dh != NULL)
			status = chunk_backward(ctx, &h, dh, m, n);
	}
	return status;
}
