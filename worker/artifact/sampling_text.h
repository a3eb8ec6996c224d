/*
 * The texts in a sampling archive that are not the adapter itself: the model card, and the
 * tokenizer files where the base model is a GGUF file and has none.
 */
#ifndef WORKER_ARTIFACT_SAMPLING_TEXT_H
#define WORKER_ARTIFACT_SAMPLING_TEXT_H

#include "ipc/json_write.h"
#include "worker/files/files.h"
#include "worker/artifact/sampling.h"

/* The text of README.md; weights_sha256 is of adapter_model.safetensors. The card's evidence digest
   is the SHA-256 of the record of facts that stands in it, as it stands there. The caller frees;
   NULL: no memory. */
char *sampling_card(const struct sampling *s, const char *weights_sha256, size_t *len);

/* Writes a tokenizer_config.json for a model without one: special tokens, chat template, length. */
void sampling_tokenizer_config(struct json_writer *w, const struct model_files *files);

#endif
