#include "kernels/tiles.h"

#include <stdlib.h>

/* Kernels count rows in ints, and go up to two tiles past the last one. */
enum { MOST_TOKENS = INT32_MAX - 2 * TILE_LONG };

struct gpu_tiling {
	uint32_t *start; /* (sequences + 1), host: of which packing the table is */
	size_t sequences, room;
	struct gpu_area table; /* short tiles, then long ones */
	size_t count[2];
};

static const uint32_t tile_rows[2] = {TILE_ROWS, TILE_LONG};

enum op_status
tiles_new(struct op_context *ctx)
{
	ctx->tiling = (struct gpu_tiling *)calloc(1, sizeof(*ctx->tiling));
	if (ctx->tiling == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for the table of tiles");
	return OP_OK;
}

void
tiles_free(struct gpu_tiling *tiling)
{
	if (tiling == NULL)
		return;
	(void)cudaFree(tiling->table.memory);
	free(tiling->start);
	free(tiling);
}

static bool
is_known(const struct gpu_tiling *t, const struct op_packing *packing)
{
	return t->start != NULL && t->sequences == packing->sequences &&
	       memcmp(t->start, packing->start, (t->sequences + 1) * sizeof(*t->start)) == 0;
}

static size_t
fill(struct tile *tiles, uint32_t rows, const struct op_packing *packing)
{
	size_t count = 0;

	for (size_t s = 0; s < packing->sequences; s++) {
		uint32_t start = packing->start[s], end = packing->start[s + 1];

		for (uint32_t row = start; row < end; row += rows, count++)
			if (tiles != NULL)
				tiles[count] =
				    (struct tile){(int32_t)row, (int32_t)start, (int32_t)end};
	}
	return count;
}

/* Room for so many tiles on the device; what was there goes, first. */
static enum op_status
grow(struct op_context *ctx, struct gpu_tiling *t, size_t count)
{
	size_t bytes = count * sizeof(struct tile);

	if (bytes <= t->table.size)
		return OP_OK;
	GPU_TRY(op_free(ctx, t->table.memory));
	t->table = (struct gpu_area){NULL, 0};
	t->sequences = 0;
	GPU_TRY(op_alloc(ctx, &t->table.memory, bytes));
	t->table.size = bytes;
	return OP_OK;
}

/* Each sequence has a tile at least, and each tile a row. */
enum op_status
tiles_reserve(struct op_context *ctx, size_t tokens)
{
	return grow(ctx, ctx->tiling, 2 * tokens);
}

/* The table on the device; the old one goes only when it is too small. */
static enum op_status
upload(struct op_context *ctx, struct gpu_tiling *t, const struct op_packing *packing)
{
	size_t count = 0, bytes;
	struct tile *tiles;
	enum op_status status;

	for (size_t i = 0; i < 2; i++)
		count += t->count[i] = fill(NULL, tile_rows[i], packing);
	bytes = count * sizeof(*tiles);
	if (bytes > t->table.size)
		GPU_TRY(grow(ctx, t, 2 * count));
	tiles = (struct tile *)malloc(bytes + 1);
	if (tiles == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for %zu tiles", count);
	(void)fill(tiles, TILE_ROWS, packing);
	(void)fill(tiles + t->count[0], TILE_LONG, packing);
	status = op_upload(ctx, t->table.memory, tiles, bytes);
	free(tiles);
	return status;
}

enum op_status
tiles_of(struct op_context *ctx, enum tile_size size, const struct tile **out, size_t *count,
    const struct op_packing *packing)
{
	struct gpu_tiling *t = ctx->tiling;
	size_t n = packing->sequences + 1;

	if (packing->tokens > MOST_TOKENS)
		return op_fail(ctx, OP_UNSUPPORTED, "%zu tokens at once", packing->tokens);
	if (!is_known(t, packing)) {
		t->sequences = 0; /* nothing is known while it changes */
		if (n > t->room) {
			free(t->start);
			t->room = 0;
			t->start = (uint32_t *)malloc(2 * n * sizeof(*t->start));
			if (t->start == NULL)
				return op_fail(ctx, OP_NO_MEMORY, "no memory for %zu sequences", n);
			t->room = 2 * n;
		}
		t->start[0] = UINT32_MAX;
		GPU_TRY(upload(ctx, t, packing));
		memcpy(t->start, packing->start, n * sizeof(*t->start));
		t->sequences = packing->sequences;
	}
	*out = (const struct tile *)t->table.memory + (size == TILE_LONG ? t->count[0] : 0);
	*count = t->count[size == TILE_LONG];
	return OP_OK;
}

int
attention_window(const struct op_attention_shape *shape, const struct op_packing *packing)
{
	return shape->window < packing->tokens ? (int)shape->window : 0;
}

enum op_status
attention_check(struct op_context *ctx, const struct op_attention_shape *shape)
{
	if (shape->kv_heads == 0 || shape->heads % shape->kv_heads != 0 || shape->head_dim == 0)
		return op_fail(ctx, OP_UNSUPPORTED, "%zu heads over %zu key/value heads of %zu",
		    shape->heads, shape->kv_heads, shape->head_dim);
	if (shape->head_dim > 256 || shape->heads > 65535)
		return op_fail(ctx, OP_UNSUPPORTED, "%zu heads of %zu: at most 65535 of 256",
		    shape->heads, shape->head_dim);
	return OP_OK;
}
