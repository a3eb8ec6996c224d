/*
 * The backward pass: from dhead, the loss's gradient at the head's input, back through the layers
 * that hold or lie above an adapted one. Only the adapter learns, so a linear layer passes the
 * gradient on (dx = W^T dy) and adds to the gradients of its A and B. A flat list of ops.
 */
#ifndef WORKER_MODEL_BACKWARD_H
#define WORKER_MODEL_BACKWARD_H

#include "kernels/ops.h"
#include "worker/model/pass.h"

/* da, db of every adapted layer += the batch's share. After forward_layers and forward_loss on
   activations cut for backward. Adds nothing where the adapter is off. */
enum op_status backward_layers(const struct pass *p);

#endif
