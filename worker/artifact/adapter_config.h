/*
 * PEFT's adapter_config.json: written for our adapters, judged for those that come in. LoRA has
 * many variants that compute something else with the same tensors (rsLoRA, DoRA, patterns of ranks,
 * ...): whatever is not plain LoRA on linear layers is refused by its key.
 */
#ifndef WORKER_ARTIFACT_ADAPTER_CONFIG_H
#define WORKER_ARTIFACT_ADAPTER_CONFIG_H

#include <stddef.h>

#include "ipc/json.h"
#include "ipc/json_write.h"
#include "ipc/refusal.h"
#include "worker/train/adapter.h"
#include "worker/artifact/artifact.h"

/* Writes the whole object. layers: of the model; an adapter that leaves some layers out names each
   module by its path. */
void adapter_config_write(struct json_writer *w, const struct artifact_identity *identity,
    const struct adapter *a, size_t layers);

/* Checks that a config describes plain LoRA on exactly the modules of `a`, with the base model,
   revision, rank and alpha of *want. 0, or -1 with *r (422) naming the key. */
int adapter_config_check(struct json root, const struct artifact_identity *want,
    const struct adapter *a, struct refusal *r);

#endif
