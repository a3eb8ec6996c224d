#include "kernels/repeat.h"
#include "kernels/repeat_graphs.h"
#include "kernels/tiles.h"

#include <stdlib.h>

enum {
	KNOWN = 64, /* kinds of work that are remembered */
	KEPT = 16,  /* graphs at a time: each also takes some MB of the host */
};

/* One kind of work. */
struct gpu_graph {
	uint64_t key[REPEAT_KEY + 2]; /* the caller's, then the numbers of tiles */
	size_t count;		      /* of them; 0: a free place */
	cudaGraphExec_t exec;	      /* NULL: seen, not recorded */
	size_t bytes;
	uint64_t used; /* when it came last */
};

struct gpu_graphs {
	struct gpu_graph known[KNOWN];
	uint64_t now;
	size_t allowed;
	size_t largest; /* bytes of one, so far */
	struct repeat_counts counts;
	char trouble[256];
};

enum op_status
graphs_new(struct op_context *ctx)
{
	ctx->graphs = (struct gpu_graphs *)calloc(1, sizeof(*ctx->graphs));
	if (ctx->graphs == NULL)
		return op_fail(ctx, OP_NO_MEMORY, "no memory for the context");
	return OP_OK;
}

void
graphs_free(struct gpu_graphs *graphs)
{
	for (size_t i = 0; graphs != NULL && i < KNOWN; i++)
		if (graphs->known[i].exec != NULL)
			(void)cudaGraphExecDestroy(graphs->known[i].exec);
	free(graphs);
}

/* What failed is why there are no graphs from now on: the first such thing. */
static enum op_status
note(struct op_context *ctx, enum op_status status)
{
	char *trouble = ctx->graphs->trouble;

	if (status != OP_OK && trouble[0] == '\0')
		memcpy(trouble, ctx->error, sizeof(ctx->graphs->trouble));
	return status;
}

/* Of a call about graphs: OP_DEVICE_FAULT only where the device failed. */
static enum op_status
check(struct op_context *ctx, cudaError_t error, const char *what)
{
	enum op_status status;

	ctx->tries = true;
	status = gpu_check(ctx, error, what);
	ctx->tries = false;
	return note(ctx, status);
}

/* The graph goes, its key stays. One that cannot be destroyed is lost memory, and the last one. */
static enum op_status
drop(struct op_context *ctx, struct gpu_graph *g)
{
	struct repeat_counts *c = &ctx->graphs->counts;
	enum op_status status;

	if (g->exec == NULL)
		return OP_OK;
	status = check(ctx, cudaGraphExecDestroy(g->exec), "cudaGraphExecDestroy");
	c->graphs--;
	c->bytes -= g->bytes;
	g->exec = NULL;
	g->bytes = 0;
	return status == OP_DEVICE_FAULT ? status : OP_OK;
}

enum op_status
graphs_forget(struct op_context *ctx)
{
	struct gpu_graphs *graphs = ctx->graphs;

	for (size_t i = 0; graphs != NULL && i < KNOWN; i++) {
		GPU_TRY(drop(ctx, &graphs->known[i]));
		graphs->known[i].count = 0;
	}
	return OP_OK;
}

enum op_status
graphs_give_way(struct op_context *ctx, bool *gave)
{
	*gave = ctx->graphs != NULL && ctx->graphs->counts.graphs != 0;
	if (!*gave)
		return OP_OK;
	GPU_TRY(gpu_check(ctx, cudaStreamSynchronize(ctx->stream), "cudaStreamSynchronize"));
	return graphs_forget(ctx);
}

static struct gpu_graph *
find(struct gpu_graphs *graphs, const uint64_t *key, size_t count)
{
	for (size_t i = 0; i < KNOWN; i++) {
		struct gpu_graph *g = &graphs->known[i];

		if (g->count == count && memcmp(g->key, key, count * sizeof(*key)) == 0)
			return g;
	}
	return NULL;
}

/* Done as it comes, and seen if that went well: in the place of what was not seen for the longest
   time. */
static enum op_status
see(struct op_context *ctx, const uint64_t *key, size_t count, repeat_work *work,
    const void *argument)
{
	struct gpu_graph *g = ctx->graphs->known;

	for (size_t i = 1; i < KNOWN && g->count != 0; i++) {
		struct gpu_graph *other = &ctx->graphs->known[i];

		if (other->count == 0 || other->used < g->used)
			g = other;
	}
	GPU_TRY(work(argument));
	GPU_TRY(drop(ctx, g));
	memcpy(g->key, key, count * sizeof(*key));
	g->count = count;
	g->used = ctx->graphs->now;
	return OP_OK;
}

/* Graphs that were not launched since `before` go, the oldest first, until so many more of so many
   bytes are allowed. *made: they are. */
static enum op_status
make_room(struct op_context *ctx, size_t more, size_t bytes, uint64_t before, bool *made)
{
	struct gpu_graphs *graphs = ctx->graphs;

	for (;;) {
		struct gpu_graph *oldest = NULL;

		*made = graphs->counts.graphs + more <= KEPT &&
			graphs->counts.bytes <= graphs->allowed &&
			bytes <= graphs->allowed - graphs->counts.bytes;
		if (*made)
			return OP_OK;
		for (size_t i = 0; i < KNOWN; i++) {
			struct gpu_graph *g = &graphs->known[i];

			if (g->exec != NULL && g->used < before &&
			    (oldest == NULL || g->used < oldest->used))
				oldest = g;
		}
		if (oldest == NULL)
			return OP_OK;
		GPU_TRY(drop(ctx, oldest));
	}
}

/* The work as a graph; nothing of it is done. */
static enum op_status
record(struct op_context *ctx, cudaGraph_t *out, repeat_work *work, const void *argument)
{
	enum op_status status, ended;

	*out = NULL;
	GPU_TRY(check(ctx, cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeThreadLocal),
	    "cudaStreamBeginCapture"));
	ctx->tries = true;
	status = note(ctx, work(argument));
	ctx->tries = false;
	/* in any case: until then the stream does nothing */
	ended = check(ctx, cudaStreamEndCapture(ctx->stream, out), "cudaStreamEndCapture");
	if (status != OP_OK && *out != NULL)
		ended = check(ctx, cudaGraphDestroy(*out), "cudaGraphDestroy");
	return status == OP_OK || ended == OP_DEVICE_FAULT ? ended : status;
}

/* Bytes that are free on the device. */
static enum op_status
left(struct op_context *ctx, size_t *bytes)
{
	size_t total;

	return check(ctx, cudaMemGetInfo(bytes, &total), "cudaMemGetInfo");
}

/* g->exec = the work, ready to be launched, and what it takes. */
static enum op_status
make(struct op_context *ctx, struct gpu_graph *g, repeat_work *work, const void *argument)
{
	struct gpu_graphs *graphs = ctx->graphs;
	size_t before = 0, after = 0;
	cudaGraphExec_t exec = NULL;
	enum op_status status, ended;
	cudaGraph_t graph;

	GPU_TRY(record(ctx, &graph, work, argument));
	graphs->counts.recorded++;
	status = left(ctx, &before);
	if (status == OP_OK)
		status = check(ctx, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	ended = check(ctx, cudaGraphDestroy(graph), "cudaGraphDestroy");
	if (status != OP_OK)
		return ended == OP_DEVICE_FAULT ? ended : status;
	g->exec = exec;
	graphs->counts.graphs++;
	GPU_TRY(ended);
	GPU_TRY(check(ctx, cudaGraphUpload(exec, ctx->stream), "cudaGraphUpload"));
	GPU_TRY(left(ctx, &after));
	g->bytes = before > after ? before - after : 0;
	graphs->counts.bytes += g->bytes;
	graphs->largest = size_max(graphs->largest, g->bytes);
	return OP_OK;
}

/* The work as one launch, if it can be. *done: it is. */
static enum op_status
launch(struct op_context *ctx, struct gpu_graph *g, uint64_t before, repeat_work *work,
    const void *argument, bool *done)
{
	struct gpu_graphs *graphs = ctx->graphs;
	bool room = true;

	*done = false;
	if (g->exec == NULL) {
		GPU_TRY(make_room(ctx, 1, graphs->largest, before, &room));
		if (!room)
			return OP_OK;
		GPU_TRY(make(ctx, g, work, argument));
		/* it may be the largest so far */
		GPU_TRY(make_room(ctx, 0, 0, before, &room));
		if (!room)
			return drop(ctx, g);
	}
	GPU_TRY(check(ctx, cudaGraphLaunch(g->exec, ctx->stream), "cudaGraphLaunch"));
	graphs->counts.launched++;
	*done = true;
	return OP_OK;
}

enum op_status
repeat_run(struct op_context *ctx, const uint64_t *key, size_t count,
    const struct op_packing *packing, repeat_work *work, const void *argument)
{
	struct gpu_graphs *graphs = ctx->graphs;
	uint64_t all[REPEAT_KEY + 2] = {0}, before;
	const struct tile *tiles;
	struct gpu_graph *g;
	enum op_status status;
	size_t short_tiles, long_tiles;
	bool done;

	if (count > REPEAT_KEY)
		return op_fail(ctx, OP_UNSUPPORTED, "a key of %zu numbers", count);
	/* uploads the table, which cannot be recorded */
	GPU_TRY(tiles_of(ctx, TILE_ROWS, &tiles, &short_tiles, packing));
	GPU_TRY(tiles_of(ctx, TILE_LONG, &tiles, &long_tiles, packing));
	if (graphs->allowed == 0 || graphs->trouble[0] != '\0')
		return work(argument);
	memcpy(all, key, count * sizeof(*key));
	all[count++] = short_tiles;
	all[count++] = long_tiles;
	graphs->now++;
	g = find(graphs, all, count);
	if (g == NULL)
		return see(ctx, all, count, work, argument);
	before = g->used;
	g->used = graphs->now;
	status = launch(ctx, g, before, work, argument, &done);
	if (status == OP_DEVICE_FAULT || (status == OP_OK && done))
		return status;
	if (status != OP_OK)
		GPU_TRY(graphs_forget(ctx));
	return work(argument);
}

void
repeat_allow(struct op_context *ctx, size_t bytes)
{
	ctx->graphs->allowed = bytes;
}

struct repeat_counts
repeat_counted(const struct op_context *ctx)
{
	return ctx->graphs->counts;
}

const char *
repeat_trouble(const struct op_context *ctx)
{
	return ctx->graphs->trouble;
}
