/*
 * The forward pass of a decoder: embedding, then for each layer x += attention(norm(x)) and
 * x += mlp(norm(x)), then norm and head on chosen rows. Each linear layer is y = W x + b, plus
 * scale B(A x) where it is adapted (Hu et al. 2021, eq. 3). A flat list of ops; nothing is
 * allocated.
 */
#ifndef WORKER_MODEL_FORWARD_H
#define WORKER_MODEL_FORWARD_H

#include <stddef.h>

#include "kernels/ops.h"
#include "worker/model/pass.h"

/* Runs the layers over the batch. Afterwards the last layer's x (T, D) is the stack's output and,
   if the activations were cut for backward, every layer's part is kept. */
enum op_status forward_layers(const struct pass *p);

/* Runs again, over the x that a layer was given, what of it is kept for backward, and leaves its
   last norm and SwiGLU's output: the same values, bit for bit. What the layer gave is not computed:
   it is the next one's x. The activations were cut for backward. */
enum op_status forward_again(const struct pass *p, size_t layer);

/* acts->logp (M) = log p of each supervised row's target. Where the activations were cut for
   backward, dhead (M, D) is set as well. After forward_layers. */
enum op_status forward_loss(const struct pass *p);

/* acts->logits (M, V) of the batch's rows; M is at most the shape's logits. After forward_layers.
 */
enum op_status forward_logits(const struct pass *p);

/* After a loss that is not finite: writes into name what was the first thing in the order of the
   pass that is not ("the output of model.layers.3.self_attn"). */
enum op_status forward_blame(const struct pass *p, char *name, size_t size);

/* acts->dropped = x with dropout, for one adapted layer; x itself, untouched, where dropout is 0.
   The same call gives the same values, so backward need not keep them. */
enum op_status forward_dropout(const struct pass *p, const void **out, const void *x, size_t layer,
    enum model_linear which, size_t inputs);

#endif
