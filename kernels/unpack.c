#include "kernels/context.h"
#include "kernels/dequant.h"
#include "kernels/element.h"

enum { PIECE = 4096 }; /* elements at a time: a multiple of every block */

enum op_status
op_unpack(struct op_context *ctx, void *out, enum op_dtype as, const void *in, int type, size_t n)
{
	const struct dequant_format *f = dequant_format((uint32_t)type);

	if (f == NULL || n % f->block != 0)
		return op_fail(ctx, OP_UNSUPPORTED, "%zu elements of type %d", n, type);
#pragma omp parallel for num_threads(op_team(ctx, n)) schedule(static)
	for (size_t i = 0; i < n; i += PIECE) {
		const void *from = (const char *)in + i / f->block * f->bytes;
		const size_t many = size_min(n - i, PIECE);
		float buffer[PIECE], *to = element_place(buffer, out, i, as);

		dequant_f32((enum dequant_type)type, to, from, many);
		if (as == OP_BF16)
			dequant_round_bf16((uint16_t *)out + i, to, many);
	}
	return OP_OK;
}
