#include "worker/files/weight_read.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/sha256.h"

/* Where row `row` of a head-interleaved matrix lies in the file. Transformers keeps the pairs
   (d, d+half) of a head half a head apart, GGUF of the llama family side by side. */
static size_t
file_row(const struct weight *w, size_t rows, size_t row)
{
	size_t head_dim, half, head, at;

	if (w->heads == 0)
		return row;
	head_dim = rows / w->heads;
	half = head_dim / 2;
	head = row / head_dim;
	at = row % head_dim;
	return head * head_dim + (at < half ? 2 * at : 2 * (at - half) + 1);
}

/* One row, in pieces that fit a small buffer where it has to be rounded. 4096 is a multiple of
   every block. */
static void
read_row(const struct weight *w, const unsigned char *in, void *out, enum op_dtype as)
{
	enum { PIECE = 4096 };
	const struct dequant_format *f = dequant_format(w->type);
	float piece[PIECE];

	if (as == OP_F32) {
		dequant_f32(w->type, out, in, w->cols);
		return;
	}
	if (w->type == DEQUANT_BF16) {
		memcpy(out, in, w->cols * 2);
		return;
	}
	for (size_t i = 0; i < w->cols; i += PIECE) {
		size_t n = w->cols - i < PIECE ? w->cols - i : PIECE;

		dequant_f32(w->type, piece, in + i / f->block * f->bytes, n);
		dequant_round_bf16((uint16_t *)out + i, piece, n);
	}
}

/* An interleaved bias: elements change place, not rows. Stored in a type without blocks or in
   blocks of 32, which need not divide a head: all of it is dequantized, then moved. */
static int
permute_vector(const struct weight *w, void *out, size_t size)
{
	unsigned char *copy = malloc(w->cols * size);

	if (copy == NULL)
		return -1;
	memcpy(copy, out, w->cols * size);
	for (size_t i = 0; i < w->cols; i++)
		memcpy(
		    (unsigned char *)out + i * size, copy + file_row(w, w->cols, i) * size, size);
	free(copy);
	return 0;
}

int
weight_read(const struct weight *w, void *out, enum op_dtype as, size_t first, size_t count)
{
	size_t size = as == OP_F32 ? 4 : 2;

	for (size_t i = 0; i < count; i++) {
		size_t row = w->vector ? 0 : file_row(w, w->rows, first + i);

		read_row(
		    w, w->data + row * w->row_bytes, (unsigned char *)out + i * w->cols * size, as);
	}
	if (w->vector && w->heads != 0 && count != 0)
		return permute_vector(w, out, size);
	return 0;
}

void
weight_copy(const struct weight *w, void *out, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		memcpy((unsigned char *)out + i * w->row_bytes,
		    w->data + file_row(w, w->rows, first + i) * w->row_bytes, w->row_bytes);
}

int
weights_digest(const struct weights *w, char hex[65])
{
	char(*digests)[65] = calloc(w->count, sizeof(*digests));
	struct sha256 whole;

	if (digests == NULL)
		return -1;
#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < w->count; i++) {
		struct sha256 one;

		sha256_init(&one);
		sha256_update(&one, w->list[i].data, w->list[i].rows * w->list[i].row_bytes);
		sha256_final_hex(&one, digests[i]);
	}
	sha256_init(&whole);
	for (size_t i = 0; i < w->count; i++) {
		sha256_update(&whole, w->list[i].name, strlen(w->list[i].name));
		sha256_update(&whole, " ", 1);
		sha256_update(&whole, digests[i], 64);
		sha256_update(&whole, "\n", 1);
	}
	sha256_final_hex(&whole, hex);
	free(digests);
	return 0;
}
