#include "worker/train/batch.h"

#include <stdlib.h>
#include <string.h>

size_t
batch_datum_tokens(const struct datum *d)
{
	size_t last = d->length;

	while (last > 0 && !d->supervised[last - 1])
		last--;
	return last == 0 ? 0 : last - 1;
}

size_t
batch_datum_rows(const struct datum *d)
{
	size_t n = 0;

	for (size_t t = 1; t < d->length; t++)
		n += d->supervised[t] != 0;
	return n;
}

/* *array = room for n elements of that size; its content is of no use any more. */
static int
renew(void *array, size_t n, size_t size)
{
	void **at = array;

	free(*at);
	*at = calloc(n, size);
	return *at == NULL ? -1 : 0;
}

static int
reserve_tokens(struct batch *b, size_t n)
{
	if (n <= b->token_capacity)
		return 0;
	b->token_capacity = 0;
	if (renew(&b->ids, n, sizeof(*b->ids)) != 0 ||
	    renew(&b->position, n, sizeof(*b->position)) != 0)
		return -1;
	b->token_capacity = n;
	return 0;
}

static int
reserve_rows(struct batch *b, size_t n)
{
	if (n <= b->row_capacity)
		return 0;
	b->row_capacity = 0;
	if (renew(&b->rows, n, sizeof(*b->rows)) != 0 ||
	    renew(&b->targets, n, sizeof(*b->targets)) != 0 ||
	    renew(&b->coefficient, n, sizeof(*b->coefficient)) != 0)
		return -1;
	b->row_capacity = n;
	return 0;
}

static int
reserve_sequences(struct batch *b, size_t n)
{
	if (n < b->sequence_capacity)
		return 0;
	b->sequence_capacity = 0;
	if (renew(&b->start, n + 1, sizeof(*b->start)) != 0)
		return -1;
	b->sequence_capacity = n + 1;
	return 0;
}

int
batch_begin(struct batch *b, size_t tokens, size_t rows, size_t sequences, struct refusal *r)
{
	if (tokens > INT32_MAX)
		return refuse(r, 422, "a micro-batch of %zu tokens is too long", tokens);
	if (reserve_tokens(b, tokens) != 0 || reserve_rows(b, rows) != 0 ||
	    reserve_sequences(b, sequences) != 0)
		return refuse(r, 507, "no memory for a micro-batch of %zu tokens", tokens);
	b->tokens = b->row_count = b->sequences = 0;
	b->start[0] = 0;
	return 0;
}

void
batch_fini(struct batch *b)
{
	free(b->ids);
	free(b->position);
	free(b->rows);
	free(b->targets);
	free(b->coefficient);
	free(b->start);
	memset(b, 0, sizeof(*b));
}

void
batch_add_tokens(struct batch *b, const int32_t *ids, size_t count, size_t position)
{
	for (size_t t = 0; t < count; t++) {
		b->ids[b->tokens + t] = ids[t];
		b->position[b->tokens + t] = (int32_t)(position + t);
	}
	b->tokens += count;
	b->start[++b->sequences] = (uint32_t)b->tokens;
}

void
batch_add_row(struct batch *b, size_t row, int32_t target, float coefficient)
{
	b->rows[b->row_count] = (int32_t)row;
	b->targets[b->row_count] = target;
	b->coefficient[b->row_count] = coefficient;
	b->row_count++;
}

void
batch_add(struct batch *b, const struct datum *d, float coefficient)
{
	const size_t first = b->tokens, tokens = batch_datum_tokens(d);

	if (tokens == 0)
		return;
	batch_add_tokens(b, d->ids, tokens, 0);
	for (size_t t = 1; t <= tokens; t++)
		if (d->supervised[t])
			batch_add_row(b, first + t - 1, d->ids[t], coefficient);
}

enum op_status
batch_upload(const struct batch *b, struct op_context *ops, const struct activations *acts,
    struct pass_batch *out)
{
	const size_t T = b->tokens, M = b->row_count;

	OP_TRY(op_upload(ops, acts->ids, b->ids, T * sizeof(*b->ids)));
	OP_TRY(op_upload(ops, acts->position, b->position, T * sizeof(*b->position)));
	OP_TRY(op_upload(ops, acts->rows, b->rows, M * sizeof(*b->rows)));
	if (acts->shape.rows != 0) {
		OP_TRY(op_upload(ops, acts->targets, b->targets, M * sizeof(*b->targets)));
		OP_TRY(
		    op_upload(ops, acts->coefficient, b->coefficient, M * sizeof(*b->coefficient)));
	}
	*out = (struct pass_batch){
	    .ids = acts->ids,
	    .rows = acts->rows,
	    .targets = acts->targets,
	    .coefficient = acts->coefficient,
	    .packing = {.start = b->start,
		.position = acts->position,
		.sequences = b->sequences,
		.tokens = T},
	    .row_count = M,
	};
	return OP_OK;
}
