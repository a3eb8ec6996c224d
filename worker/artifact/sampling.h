/*
 * The sampling artifact: a gzip tar that PEFT's from_pretrained loads once unpacked:
 * adapter/adapter_config.json, adapter/adapter_model.safetensors (float32), the tokenizer files
 * and a README.md model card.
 */
#ifndef WORKER_ARTIFACT_SAMPLING_H
#define WORKER_ARTIFACT_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/refusal.h"
#include "worker/artifact/artifact.h"

struct adapter;
struct model_files;
struct tokenizer;

struct sampling {
	struct artifact_identity identity; /* its seed and base_sha256 go into the card only */
	uint64_t step;
	double loss; /* of the last step, NaN before the first */
};

/* Writes the archive to fd. param: host, (adapter->size) floats. 0 with *sum, or -1 with *r. */
int sampling_write(int fd, const struct sampling *s, const struct adapter *a, const float *param,
    const struct model_files *files, const struct tokenizer *tokenizer, struct artifact_sum *sum,
    struct refusal *r);

/* Reads an adapter from an archive that nobody vouches for, by us or by PEFT: base model, revision,
   rank and alpha must equal *want (dropout, seed and base_sha256 are not looked at), exactly the
   keys and shapes of the adapter, float32, float16 or bfloat16, finite. Variants of LoRA that
   compute something else (rsLoRA, DoRA, patterns, ...) are refused by name. Everything is checked
   before the first float is copied. param NULL: only checked, nothing is copied. 0, or -1 with *r
   (422). */
int sampling_read(int fd, const struct artifact_identity *want, const struct adapter *a,
    float *param, struct refusal *r);

#endif
