/*
 * Packed sequences as the attention kernels see them: tiles of at most 64 or 128 rows, each inside
 * one sequence. A tile begins at a multiple of that of its sequence, so a sequence gives the same
 * bits alone and packed. The table is made and uploaded when the packing changes, once for all
 * layers of a pass.
 */
#ifndef KERNELS_TILES_H
#define KERNELS_TILES_H

#include "kernels/gpu.h"

enum tile_size { TILE_ROWS = 64, TILE_LONG = 128 };

struct tile {
	int32_t first;	    /* row */
	int32_t start, end; /* rows of its sequence */
};

/* What tiles_of keeps, in ctx->tiling. */
enum op_status tiles_new(struct op_context *ctx);
void tiles_free(struct gpu_tiling *tiling);
/* Room for the table of any packing of so many tokens. */
enum op_status tiles_reserve(struct op_context *ctx, size_t tokens);

/* *out (count), on the device, owned by ctx, valid until the next packing. */
enum op_status tiles_of(struct op_context *ctx, enum tile_size size, const struct tile **out,
    size_t *count, const struct op_packing *packing);

/* The shape's window in the kernels' rows, 0 where every query sees all of its sequence: a window
   may be larger than an int, and the rows behind it are counted in ints. */
int attention_window(const struct op_attention_shape *shape, const struct op_packing *packing);
/* OP_UNSUPPORTED for a shape that makes no sense, or a head wider than 256. */
enum op_status attention_check(struct op_context *ctx, const struct op_attention_shape *shape);

#endif
