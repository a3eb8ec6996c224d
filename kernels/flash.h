/*
 * Attention on tensor cores: bfloat16 operands, float32 sums and softmax (Dao 2023), for heads of
 * 64, 80, 96, 128 and 256. Everything else is attention.cu's.
 */
#ifndef KERNELS_FLASH_H
#define KERNELS_FLASH_H

#include "kernels/gpu.h"

/* Whether there is a kernel for this width of head, and the copies of 16 bytes find their operands
   aligned: `addresses` is those of all of them, or-ed. */
bool flash_takes(const struct op_attention_shape *shape, uintptr_t addresses);

/* As op_attention and op_attention_backward, for a context that computes in bfloat16. */
enum op_status flash_forward(struct op_context *ctx, void *out, float *lse, const void *q,
    const void *k, const void *v, const struct op_packing *packing,
    const struct op_attention_shape *shape);
enum op_status flash_backward(struct op_context *ctx, void *dq, void *dk, void *dv,
    const void *dout, const void *out, const float *lse, const void *q, const void *k,
    const void *v, const struct op_packing *packing, const struct op_attention_shape *shape);

#endif
