/*
 * Tokenizers: text to token ids with their places in the text, and back. They are read from a
 * tokenizer.json of HF tokenizers or from the metadata of a GGUF file, and do what HF tokenizers
 * does, byte for byte; what they cannot do is refused by its name when they are opened. A tokenizer
 * does not change after it was opened and may be used by several threads.
 */
#ifndef WORKER_TOKENIZER_TOKENIZER_H
#define WORKER_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/json_write.h"
#include "worker/files/gguf.h"
#include "ipc/refusal.h"

struct token {
	int32_t id;
	uint32_t start, end; /* bytes of the given text that it stands for, whole characters */
};

struct tokenizer;

/* Reads a tokenizer.json; the caller keeps json. 0, or -1 with *r filled and *out NULL. */
int tokenizer_open_json(struct tokenizer **out, const void *json, size_t len, struct refusal *r);
/* Reads tokenizer.ggml.*; the file may be closed afterwards. 0, or -1 with *r filled. */
int tokenizer_open_gguf(struct tokenizer **out, const struct gguf *file, struct refusal *r);
void tokenizer_free(struct tokenizer *t);

/* Encodes len bytes (less than 1 GiB). No special tokens are added; added tokens in the text are
   found. The caller frees *tokens. 0, or -1 with *r filled: the text is no UTF-8, or a pattern
   takes too long on it. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, struct token **tokens,
    size_t *count, struct refusal *r);
/* Decodes; ids that are no tokens vanish, special ones where skip_special. The caller frees *text,
   which has a NUL after its len bytes. 0 or -1: out of memory, or a pattern took too long. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
    char **text, size_t *len);

/* The highest id + 1. */
size_t tokenizer_vocabulary(const struct tokenizer *t);
/* The id of a token by its text as the file spells it, or -1. */
int32_t tokenizer_id(const struct tokenizer *t, const char *token);

/* Writes a tokenizer.json that HF tokenizers reads to the same behaviour. 0 or -ENOMEM. */
int tokenizer_write_json(const struct tokenizer *t, struct json_writer *w);

#endif
