/*
 * What the names in a GGUF's tokenizer.ggml.pre stand for: the steps that the model's own
 * tokenizer.json has. The file names them and says no more, so a name that is not in the table is
 * refused. Source: llama.cpp's src/llama-vocab.cpp and convert_hf_to_gguf_update.py, which derive
 * the names from the tokenizers of the models, and those models' tokenizer.json.
 */
#ifndef WORKER_TOKENIZER_GGUF_PRE_H
#define WORKER_TOKENIZER_GGUF_PRE_H

#include <stdbool.h>
#include <stddef.h>

struct gguf_pre {
	const char *name;
	const char *normalizer;	   /* JSON */
	const char *pre_tokenizer; /* JSON */
	bool ignore_merges;
};

/* NULL if the name, len bytes, is not known. */
const struct gguf_pre *gguf_pre_find(const char *name, size_t len);

#endif
