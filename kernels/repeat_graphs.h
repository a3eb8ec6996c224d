/*
 * The CUDA graphs of repeat.cu, for the context that owns them and the ops that give memory back.
 */
#ifndef KERNELS_REPEAT_GRAPHS_H
#define KERNELS_REPEAT_GRAPHS_H

#include "kernels/gpu.h"

/* ctx->graphs. */
enum op_status graphs_new(struct op_context *ctx);
/* NULL is allowed. */
void graphs_free(struct gpu_graphs *graphs);

/* Before memory of the device is given back: no graph stays, and what was seen is forgotten. */
enum op_status graphs_forget(struct op_context *ctx);

/* Memory lacks: *gave = whether there were graphs, which are gone then. Waits for them. */
enum op_status graphs_give_way(struct op_context *ctx, bool *gave);

#endif
