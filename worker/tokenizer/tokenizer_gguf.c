#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json.h"
#include "ipc/utf8.h"
#include "worker/tokenizer/gguf_pre.h"
#include "worker/tokenizer/steps_json.h"
#include "worker/tokenizer/tokenizer_parts.h"

/* Types of tokens, llama.cpp's llama_token_type. Undefined (0), normal (1), unused (5) and byte (6)
   are not looked for in the text. */
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 };

static const char decoder[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
			      "\"trim_offsets\":true,\"use_regex\":true}";

static int
refuse_key(struct refusal *r, const char *key, const char *what)
{
	return refuse(r, 422, "GGUF: tokenizer.ggml.%s %s", key, what);
}

static int
read_tokens(struct bpe *b, const struct gguf *file, struct refusal *r)
{
	struct gguf_array tokens;
	size_t bytes = 0, count, len;
	const char *text;

	if (!gguf_strings(file, "tokenizer.ggml.tokens", &tokens))
		return refuse_key(r, "tokens", "is missing, or no array of strings");
	count = tokens.count;
	while (gguf_next_string(&tokens, &text, &len)) {
		bytes += len;
		if (utf8_valid_prefix(text, len) != len)
			return refuse_key(r, "tokens", "has a text that is not UTF-8");
	}
	if (count >= VOCAB_MAX_ID || bytes >= UINT32_MAX)
		return refuse_key(r, "tokens", "is too long");
	if (vocab_init(&b->vocab, count, bytes) != 0)
		return refuse_memory(r);
	gguf_strings(file, "tokenizer.ggml.tokens", &tokens);
	for (uint32_t id = 0; gguf_next_string(&tokens, &text, &len); id++)
		if (vocab_add(&b->vocab, vocab_seek(&b->vocab, text, len), id, text, len) != 0)
			return refuse(r, 422,
			    "GGUF: tokenizer.ggml.tokens[%u] is there twice: %.*s", id,
			    len < 60 ? (int)len : 60, text);
	return 0;
}

static int
add_merges(
    struct bpe *b, const struct bpe_merge *batch, size_t count, size_t index, struct refusal *r)
{
	size_t done = bpe_add_merges(b, batch, count);

	if (done == count)
		return 0;
	return refuse(r, 422,
	    "GGUF: tokenizer.ggml.merges[%zu] has or makes a text that is no token", index + done);
}

static int
read_merges(struct bpe *b, const struct gguf *file, struct refusal *r)
{
	struct gguf_array merges;
	struct bpe_merge batch[BPE_BATCH];
	const char *text, *space;
	size_t len, index = 0, waiting = 0;

	if (!gguf_strings(file, "tokenizer.ggml.merges", &merges))
		return refuse_key(r, "merges", "is missing, or no array of strings");
	if (merges.count > UINT32_MAX / 2)
		return refuse_key(r, "merges", "is too long");
	if (bpe_reserve_merges(b, merges.count) != 0)
		return refuse_memory(r);
	while (gguf_next_string(&merges, &text, &len)) {
		size_t left;

		space = memchr(text, ' ', len);
		left = space != NULL ? (size_t)(space - text) : len;
		if (space == NULL || memchr(space + 1, ' ', len - left - 1) != NULL)
			return refuse(
			    r, 422, "GGUF: tokenizer.ggml.merges[%zu] is not two tokens", index);
		batch[waiting++] = (struct bpe_merge){text, space + 1, left, len - left - 1};
		index++;
		if (waiting < BPE_BATCH)
			continue;
		if (add_merges(b, batch, waiting, index - waiting, r) != 0)
			return -1;
		waiting = 0;
	}
	return add_merges(b, batch, waiting, index - waiting, r);
}

static int
read_types(struct tokenizer *t, const struct gguf *file, struct refusal *r)
{
	struct gguf_array types;
	int64_t type;

	if (!gguf_ints(file, "tokenizer.ggml.token_type", &types) ||
	    types.count != t->model.vocab.count)
		return refuse_key(r, "token_type", "is missing, or not as long as the tokens");
	for (uint32_t id = 0; gguf_next_int(&types, &type); id++) {
		struct added_token token = {.id = id};
		const char *text = vocab_text(&t->model.vocab, id, &token.len);

		if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER_DEFINED)
			continue;
		if (token.len == 0 || token.len > ADDED_MAX_BYTES ||
		    t->added.count == ADDED_MAX_TOKENS)
			return refuse(r, 422,
			    "GGUF: tokenizer.ggml.tokens[%u] is no text that can be looked for",
			    id);
		token.text = (char *)text;
		token.special = type != TYPE_USER_DEFINED;
		if (added_append(&t->added, &token) != 0)
			return refuse_memory(r);
	}
	return 0;
}

/* A part given as JSON, read and kept. */
static int
read_part(
    struct steps *steps, enum steps_part part, const char *json, char **kept, struct refusal *r)
{
	struct json_doc *doc;
	int rc;

	if (json_parse(&doc, json, strlen(json), NULL) != 0)
		return refuse_memory(r);
	rc = steps_read(steps, part, json_root(doc), r);
	json_free(doc);
	if (rc == 0 && strcmp(json, "null") != 0 && (*kept = strdup(json)) == NULL)
		rc = refuse_memory(r);
	return rc;
}

static int
read_steps(struct tokenizer *t, const struct gguf *file, struct refusal *r)
{
	const struct gguf_pre *pre;
	const char *name;
	size_t len;

	if (!gguf_string(file, "tokenizer.ggml.model", &name, &len))
		return refuse_key(r, "model", "is missing");
	if (len != 4 || memcmp(name, "gpt2", 4) != 0)
		return refuse(r, 422,
		    "GGUF: tokenizer.ggml.model: %.*s is not supported, only gpt2 (byte-level BPE)",
		    len < 60 ? (int)len : 60, name);
	if (!gguf_string(file, "tokenizer.ggml.pre", &name, &len))
		return refuse_key(r, "pre", "is missing: how the text is cut is not known");
	pre = gguf_pre_find(name, len);
	if (pre == NULL)
		return refuse(r, 422, "GGUF: tokenizer.ggml.pre: %.*s is not supported",
		    len < 60 ? (int)len : 60, name);
	t->model.ignore_merges = pre->ignore_merges;
	t->model.unknown = -1;
	t->has_decoder = true;
	if (read_part(&t->normalizers, PART_NORMALIZER, pre->normalizer, &t->normalizer_json, r) !=
		0 ||
	    read_part(&t->pretokenizers, PART_PRE_TOKENIZER, pre->pre_tokenizer,
		&t->pretokenizer_json, r) != 0)
		return -1;
	return read_part(&t->decoders, PART_DECODER, decoder, &t->decoder_json, r);
}

int
tokenizer_open_gguf(struct tokenizer **out, const struct gguf *file, struct refusal *r)
{
	struct tokenizer *t = calloc(1, sizeof(*t));

	*out = NULL;
	if (t == NULL)
		return refuse_memory(r);
	if (read_steps(t, file, r) != 0 || read_tokens(&t->model, file, r) != 0 ||
	    read_merges(&t->model, file, r) != 0 || read_types(t, file, r) != 0 ||
	    tokenizer_finish(t, r) != 0) {
		tokenizer_free(t);
		return -1;
	}
	*out = t;
	return 0;
}
