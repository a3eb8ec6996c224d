/*
 * What lies beside the weights, private to files.c: chat template, special tokens, the ids that end
 * a generation, and the tokenizer files.
 */
#ifndef WORKER_FILES_MODEL_TEXT_H
#define WORKER_FILES_MODEL_TEXT_H

#include <stdint.h>

#include "worker/files/file_map.h"
#include "worker/files/files.h"

enum { MODEL_TEXT_FILES = 8 };

struct model_text {
	const char *template; /* view, NULL = none */
	size_t template_len;
	struct json_doc *special; /* object of special tokens */
	int32_t *eos;
	size_t eos_count;
	struct file_map files[MODEL_TEXT_FILES]; /* by model_text_names; data NULL = absent */
	struct json_doc *tokenizer_config, *other_template; /* what template is a view into */
};

/* Of a folder; config is its config.json. 0 or -1 with *r; fini in both cases. */
int model_text_from_folder(
    struct model_text *t, const char *dir, struct json config, struct refusal *r);
int model_text_from_gguf(struct model_text *t, const struct gguf *g, struct refusal *r);
/* A zeroed or half-made struct is allowed. */
void model_text_fini(struct model_text *t);

/* File name of files[i]. */
extern const char *const model_text_names[MODEL_TEXT_FILES];

#endif
