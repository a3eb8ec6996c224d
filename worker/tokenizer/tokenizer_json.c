#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json.h"
#include "worker/tokenizer/steps_json.h"
#include "worker/tokenizer/tokenizer_parts.h"

/* tokenizer.json: https://huggingface.co/docs/tokenizers; what its reader does with each field is
   in HF tokenizers' tokenizer/serialization.rs and models/bpe/serialization.rs. */

static int
refuse_json(struct refusal *r, const char *field, const char *what)
{
	return refuse(r, 422, "tokenizer.json: %s %s", field, what);
}

/* An id that a table can be indexed with. */
static bool
read_id(struct json v, uint32_t *id)
{
	int64_t value;

	if (!json_int64(v, &value) || value < 0 || value >= VOCAB_MAX_ID)
		return false;
	*id = (uint32_t)value;
	return true;
}

/* A token that waits for its slot. */
struct new_token {
	const char *text;
	size_t len;
	uint64_t hash;
	uint32_t id;
};

static int
add_tokens(struct bpe *b, const struct new_token *batch, size_t count, struct refusal *r)
{
	for (size_t i = 0; i < count; i++) {
		const struct new_token *t = &batch[i];
		int rc = vocab_add(&b->vocab, t->hash, t->id, t->text, t->len);

		if (rc != 0)
			return refuse(r, 422, "tokenizer.json: model.vocab has %s twice: %.60s",
			    rc == -EBUSY ? "an id" : "a token", t->text);
	}
	return 0;
}

/* The size of the tables that a vocabulary needs; every id is judged. */
static int
measure_vocabulary(struct json vocab, size_t *size, size_t *bytes, struct refusal *r)
{
	size_t len;
	uint32_t id;

	json_foreach (item, vocab) {
		const char *text = json_key(item, &len);

		if (!read_id(item, &id))
			return refuse(r, 422,
			    "tokenizer.json: model.vocab has an id that is no number below %d: "
			    "%.60s",
			    (int)VOCAB_MAX_ID, text);
		*bytes += len;
		if (id >= *size)
			*size = (size_t)id + 1;
	}
	return 0;
}

static int
read_vocabulary(struct bpe *b, struct json vocab, struct refusal *r)
{
	struct new_token batch[BPE_BATCH];
	size_t bytes = 0, size = 0, waiting = 0;

	if (!json_is(vocab, JSON_OBJECT))
		return refuse_json(r, "model.vocab", "is not an object");
	if (measure_vocabulary(vocab, &size, &bytes, r) != 0)
		return -1;
	if (vocab_init(&b->vocab, size, bytes) != 0)
		return refuse_memory(r);
	json_foreach (item, vocab) {
		struct new_token *t = &batch[waiting];

		t->text = json_key(item, &t->len);
		t->hash = vocab_seek(&b->vocab, t->text, t->len);
		read_id(item, &t->id);
		if (++waiting < BPE_BATCH)
			continue;
		if (add_tokens(b, batch, waiting, r) != 0)
			return -1;
		waiting = 0;
	}
	return add_tokens(b, batch, waiting, r);
}

/* "left right" or ["left", "right"]. */
static bool
read_merge(struct json v, struct bpe_merge *m)
{
	const char *space;

	if (json_is(v, JSON_ARRAY)) {
		struct json left = json_first(v), right = json_next(left);

		m->left = json_string(left, &m->left_len);
		m->right = json_string(right, &m->right_len);
		return json_count(v) == 2 && m->left != NULL && m->right != NULL;
	}
	m->left = json_string(v, &m->left_len);
	space = m->left != NULL ? memchr(m->left, ' ', m->left_len) : NULL;
	if (space == NULL)
		return false;
	m->right = space + 1;
	m->right_len = m->left_len - (size_t)(space + 1 - m->left);
	m->left_len = (size_t)(space - m->left);
	return memchr(m->right, ' ', m->right_len) == NULL;
}

/* Adds the merges that wait; index is of the first one. */
static int
add_merges(
    struct bpe *b, const struct bpe_merge *batch, size_t count, size_t index, struct refusal *r)
{
	size_t done = bpe_add_merges(b, batch, count);

	if (done == count)
		return 0;
	return refuse(r, 422,
	    "tokenizer.json: model.merges[%zu] has or makes a text that is no token: %.40s %.40s",
	    index + done, batch[done].left, batch[done].right);
}

static int
read_merges(struct bpe *b, struct json merges, struct refusal *r)
{
	struct bpe_merge batch[BPE_BATCH];
	size_t index = 0, waiting = 0;

	if (!json_is(merges, JSON_ARRAY))
		return refuse_json(r, "model.merges", "is not an array");
	if (bpe_reserve_merges(b, json_count(merges)) != 0)
		return refuse_memory(r);
	json_foreach (item, merges) {
		const char *line = json_string(item, NULL);

		if (line != NULL && strncmp(line, "#version", 8) == 0)
			continue; /* the head line of a merges.txt */
		if (!read_merge(item, &batch[waiting]))
			return refuse(
			    r, 422, "tokenizer.json: model.merges[%zu] is not two tokens", index);
		index++;
		if (++waiting < BPE_BATCH)
			continue;
		if (add_merges(b, batch, waiting, index - waiting, r) != 0)
			return -1;
		waiting = 0;
	}
	return add_merges(b, batch, waiting, index - waiting, r);
}

static int
read_flag(struct json object, const char *path, const char *field, bool *out, struct refusal *r)
{
	struct json v = json_get(object, field);

	if (json_exists(v) && !json_is(v, JSON_NULL) && !json_is(v, JSON_BOOL))
		return refuse(r, 422, "tokenizer.json: %s.%s is not true or false", path, field);
	*out = json_true(v);
	return 0;
}

/* A string that changes words where it is not empty; null is none. */
static int
read_affix(struct json model, const char *field, char **out, struct refusal *r)
{
	struct json v = json_get(model, field);
	size_t len;
	const char *text = json_string(v, &len);

	if (!json_exists(v) || json_is(v, JSON_NULL) || (text != NULL && len == 0))
		return 0;
	if (text == NULL || strlen(text) != len || len > 64)
		return refuse(r, 422, "tokenizer.json: model.%s is not a short string", field);
	*out = strdup(text);
	return *out == NULL ? refuse_memory(r) : 0;
}

static int
read_unknown(struct bpe *b, struct json model, struct refusal *r)
{
	struct json v = json_get(model, "unk_token");
	size_t len;
	const char *text = json_string(v, &len);

	b->unknown = -1;
	if (!json_exists(v) || json_is(v, JSON_NULL))
		return 0;
	b->unknown = text != NULL ? vocab_find(&b->vocab, text, len) : -1;
	if (b->unknown < 0)
		return refuse_json(r, "model.unk_token", "is not in model.vocab");
	return 0;
}

static int
read_model(struct bpe *b, struct json model, struct refusal *r)
{
	struct json type = json_get(model, "type");
	const char *name = json_string(type, NULL);
	double dropout = 0;

	if (!json_is(model, JSON_OBJECT))
		return refuse_json(r, "model", "is not an object");
	if (json_exists(type) && (name == NULL || strcmp(name, "BPE") != 0))
		return refuse(r, 422,
		    "tokenizer.json: model.type: %.60s is not supported, only BPE",
		    name != NULL ? name : "not a string");
	if (json_exists(json_get(model, "dropout")) &&
	    !json_is(json_get(model, "dropout"), JSON_NULL) &&
	    (!json_double(json_get(model, "dropout"), &dropout) || dropout != 0))
		return refuse_json(r, "model.dropout", "is not supported: ids would be random");
	if (read_vocabulary(b, json_get(model, "vocab"), r) != 0 ||
	    read_unknown(b, model, r) != 0 ||
	    read_affix(model, "continuing_subword_prefix", &b->prefix, r) != 0 ||
	    read_affix(model, "end_of_word_suffix", &b->suffix, r) != 0 ||
	    read_flag(model, "model", "fuse_unk", &b->fuse_unknown, r) != 0 ||
	    read_flag(model, "model", "byte_fallback", &b->byte_fallback, r) != 0 ||
	    read_flag(model, "model", "ignore_merges", &b->ignore_merges, r) != 0)
		return -1;
	return read_merges(b, json_get(model, "merges"), r);
}

static int
read_added(struct added *a, struct json list, struct refusal *r)
{
	if (!json_exists(list) || json_is(list, JSON_NULL))
		return 0;
	if (!json_is(list, JSON_ARRAY) || json_count(list) > ADDED_MAX_TOKENS)
		return refuse_json(r, "added_tokens", "is not an array of at most 131072 tokens");
	json_foreach (item, list) {
		struct added_token t = {0};
		const char *text = json_string(json_get(item, "content"), &t.len);

		if (!read_id(json_get(item, "id"), &t.id))
			return refuse_json(r, "added_tokens", "has an id that is out of range");
		if (text == NULL || t.len == 0 || t.len > ADDED_MAX_BYTES)
			return refuse(r, 422,
			    "tokenizer.json: added_tokens: the content of the id %u is no string "
			    "of "
			    "1 to %d bytes",
			    t.id, (int)ADDED_MAX_BYTES);
		if (read_flag(item, "added_tokens[]", "single_word", &t.single_word, r) != 0 ||
		    read_flag(item, "added_tokens[]", "lstrip", &t.lstrip, r) != 0 ||
		    read_flag(item, "added_tokens[]", "rstrip", &t.rstrip, r) != 0 ||
		    read_flag(item, "added_tokens[]", "normalized", &t.normalized, r) != 0 ||
		    read_flag(item, "added_tokens[]", "special", &t.special, r) != 0)
			return -1;
		t.text = (char *)text;
		if (added_append(a, &t) != 0)
			return refuse_memory(r);
	}
	return 0;
}

/* A copy of a value's text, NULL for null. */
static int
keep_json(struct json v, char **out, struct refusal *r)
{
	struct json_writer w;

	if (!json_exists(v) || json_is(v, JSON_NULL))
		return 0;
	json_writer_init(&w);
	json_write_value(&w, v);
	*out = json_writer_take(&w, NULL);
	json_writer_fini(&w);
	return *out == NULL ? refuse_memory(r) : 0;
}

static int
read_steps(struct tokenizer *t, struct json root, struct refusal *r)
{
	struct {
		struct steps *steps;
		char **text;
	} parts[] = {
	    [PART_NORMALIZER] = {&t->normalizers, &t->normalizer_json},
	    [PART_PRE_TOKENIZER] = {&t->pretokenizers, &t->pretokenizer_json},
	    [PART_POST_PROCESSOR] = {&t->posts, &t->post_json},
	    [PART_DECODER] = {&t->decoders, &t->decoder_json},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		struct json v = json_get(root, steps_part_names[i]);

		if (steps_read(parts[i].steps, (enum steps_part)i, v, r) != 0 ||
		    keep_json(v, parts[i].text, r) != 0)
			return -1;
	}
	t->has_decoder = t->decoder_json != NULL;
	return 0;
}

static int
read_root(struct tokenizer *t, const struct json_doc *doc, struct refusal *r)
{
	struct json root = json_root(doc);
	struct json version = json_get(root, "version");

	if (!json_is(root, JSON_OBJECT))
		return refuse(r, 422, "tokenizer.json: is not an object");
	if (json_doc_flags(doc) & JSON_HAS_SURROGATE)
		return refuse(r, 422, "tokenizer.json: a string holds a lone surrogate");
	if (json_exists(version) && !json_string_is(version, "1.0"))
		return refuse_json(r, "version", "is not 1.0");
	if (read_steps(t, root, r) != 0 || read_model(&t->model, json_get(root, "model"), r) != 0 ||
	    read_added(&t->added, json_get(root, "added_tokens"), r) != 0)
		return -1;
	return tokenizer_finish(t, r);
}

int
tokenizer_open_json(struct tokenizer **out, const void *json, size_t len, struct refusal *r)
{
	struct tokenizer *t = calloc(1, sizeof(*t));
	struct json_error error = {0};
	struct json_doc *doc;
	int rc;

	*out = NULL;
	if (t == NULL)
		return refuse_memory(r);
	if (json_parse(&doc, json, len, &error) != 0) {
		free(t);
		return refuse(r, 422, "tokenizer.json: byte %zu: %s", error.byte,
		    error.what != NULL ? error.what : "out of memory");
	}
	rc = read_root(t, doc, r);
	json_free(doc);
	if (rc != 0) {
		tokenizer_free(t);
		return -1;
	}
	*out = t;
	return 0;
}
