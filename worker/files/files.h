/*
 * A base model on disk: a folder as Transformers saves it (config.json, safetensors in one file or
 * in shards, tokenizer files), one GGUF file, or a folder that holds exactly one GGUF file and no
 * config.json. Everything is mapped read-only and checked when it is opened: headers against the
 * files, every tensor the config asks for against its shape. Nothing is copied until it is read,
 * and reading is safe from several threads at once.
 *
 * Tensors have the names and the row order of Transformers whatever the file is.
 */
#ifndef WORKER_FILES_FILES_H
#define WORKER_FILES_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json.h"
#include "kernels/dequant.h"
#include "kernels/ops.h"
#include "worker/files/config.h"
#include "worker/files/gguf.h"
#include "ipc/refusal.h"

struct model_files;

/* 0, or -1 with *r (422: the model is not one this build can read; the sentence names the file). */
int model_files_open(struct model_files **out, const char *path, struct refusal *r);
void model_files_free(struct model_files *f);

const struct model_config *model_files_config(const struct model_files *f);

bool model_files_has(const struct model_files *f, const char *name);
/* The shape of a tensor; a vector is one row. false if there is none of that name. */
bool model_files_shape(const struct model_files *f, const char *name, size_t *rows, size_t *cols);
/* Writes the whole tensor (rows, cols) to out, dequantized and converted to `as` (to bfloat16:
   rounded to nearest even). Refuses a name that is absent and any other shape. Thread-safe. */
int model_files_read(const struct model_files *f, const char *name, void *out, enum op_dtype as,
    size_t rows, size_t cols, struct refusal *r);
/* Rows first .. first+count-1 of it, for reading one large tensor in parallel. */
int model_files_read_rows(const struct model_files *f, const char *name, void *out,
    enum op_dtype as, size_t first, size_t count, size_t cols, struct refusal *r);

/* How the file stores a tensor whose rows can be handed out as they lie: all but vectors. false: it
   cannot, or there is none of that name. */
bool model_files_stored(const struct model_files *f, const char *name, enum dequant_type *type);
/* Rows first .. first+count-1 as they are stored, one after the other. */
int model_files_copy_rows(const struct model_files *f, const char *name, void *out, size_t first,
    size_t count, size_t cols, struct refusal *r);

/* Gives the memory back that reading the weights made resident: the file's pages stay in the
   system's cache and come again when they are read again. Every view stays valid. */
void model_files_release(const struct model_files *f);

/* Source of the chat template, a view; NULL if the model has none. */
const char *model_files_chat_template(const struct model_files *f, size_t *len);
/* tokenizer.json, a view; NULL for a GGUF file. */
const void *model_files_tokenizer_json(const struct model_files *f, size_t *len);
/* The GGUF file; NULL for a folder of Transformers. */
const struct gguf *model_files_gguf(const struct model_files *f);
/* Object of the special tokens a template may name: {"bos_token": "...", "eos_token": ...}. */
struct json model_files_special_tokens(const struct model_files *f);
/* Ids that end a generation; a view of *count ids (may be none). */
const int32_t *model_files_eos(const struct model_files *f, size_t *count);

/* Lower-case hex SHA-256 over the base's weights: of one line "name sha256-of-bytes\n" for each
   tensor the config asks for, sorted by name. The bytes are the file's own. Computed on first
   use (reads everything), kept after. Thread-safe. */
int model_files_digest(const struct model_files *f, char hex[65], struct refusal *r);

/* The tokenizer files that belong beside an adapter: the index-th, or false past the end. For a
   GGUF file there are none: see tokenizer_write_json. Views. */
struct model_tokenizer_file {
	const char *name; /* no folder: "tokenizer.json" */
	const void *data;
	size_t len;
};
bool model_files_tokenizer_file(
    const struct model_files *f, size_t index, struct model_tokenizer_file *out);

#endif
