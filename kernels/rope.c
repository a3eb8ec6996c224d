/*
 * Rotary embedding. The sines cost more than the rotation, so they are computed once for each
 * position, not for each token and head; positions beyond the number of tokens (a continuation)
 * get theirs token by token.
 */
#include "kernels/context.h"
#include "kernels/element.h"

#include <math.h>

/* cosine and sine (half) of position p. */
static void
angles(float *cosine, float *sine, const float *frequency, size_t half, int32_t position,
    float magnitude, bool backward)
{
	for (size_t d = 0; d < half; d++) {
		float angle = frequency[d] * (float)position;

		cosine[d] = cosf(angle) * magnitude;
		sine[d] = (backward ? -sinf(angle) : sinf(angle)) * magnitude;
	}
}

/* The first 2*half elements of a head. */
static void
rotate(float *restrict x, const float *restrict cosine, const float *restrict sine, size_t half)
{
#pragma omp simd
	for (size_t d = 0; d < half; d++) {
		float a = x[d], b = x[d + half];

		x[d] = a * cosine[d] - b * sine[d];
		x[d + half] = b * cosine[d] + a * sine[d];
	}
}

/* The head that begins at element `at` of x; more than a block is turned in pieces of the half. */
static void
turn(void *x, size_t at, const float *cosine, size_t half, enum op_dtype dtype)
{
	enum { PIECE = 512 };
	float pair[2 * PIECE];

	if (dtype == OP_F32) {
		rotate((float *)x + at, cosine, cosine + half, half);
		return;
	}
	for (size_t d = 0; d < half; d += PIECE) {
		size_t n = size_min(PIECE, half - d);

		bf16_to_floats(pair, (const uint16_t *)x + at + d, n);
		bf16_to_floats(pair + n, (const uint16_t *)x + at + half + d, n);
		rotate(pair, cosine + d, cosine + half + d, n);
		bf16_of_floats((uint16_t *)x + at + d, pair, n);
		bf16_of_floats((uint16_t *)x + at + half + d, pair + n, n);
	}
}

enum op_status
op_rope(struct op_context *ctx, void *x, const struct op_packing *packing, const float *frequency,
    size_t half, float magnitude, bool backward, size_t heads, size_t head_dim)
{
	size_t tokens = packing->tokens, rows = 1;
	bool by_position;
	void *area;
	float *table;
	enum op_status status;

	for (size_t t = 0; t < tokens; t++) {
		if (packing->position[t] < 0)
			return op_fail(ctx, OP_UNSUPPORTED, "a negative position");
		rows = size_max(rows, (size_t)packing->position[t] + 1);
	}
	by_position = rows <= tokens;
	rows = by_position ? rows : tokens;
	status = op_scratch(ctx, &area, rows * half * 2 * sizeof(float));
	if (status != OP_OK)
		return status;
	table = area;
#pragma omp parallel for num_threads(op_team(ctx, rows *half * 16)) schedule(static)
	for (size_t r = 0; r < rows; r++)
		angles(table + r * half * 2, table + r * half * 2 + half, frequency, half,
		    by_position ? (int32_t)r : packing->position[r], magnitude, backward);
#pragma omp parallel for num_threads(op_team(ctx, tokens *heads *head_dim)) schedule(static)
	for (size_t t = 0; t < tokens; t++) {
		size_t r = by_position ? (size_t)packing->position[t] : t;
		const float *cosine = table + r * half * 2;

		for (size_t h = 0; h < heads; h++)
			turn(x, (t * heads + h) * head_dim, cosine, half, ctx->compute);
	}
	return OP_OK;
}
