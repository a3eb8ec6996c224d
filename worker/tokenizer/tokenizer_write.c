#include <errno.h>
#include <string.h>

#include "worker/tokenizer/tokenizer_parts.h"

static void
put_text(struct json_writer *w, const char *key, const char *text, size_t len)
{
	json_write_key(w, key);
	json_write_string_n(w, text, len);
}

static void
put_part(struct json_writer *w, const char *key, const char *json)
{
	json_write_key(w, key);
	if (json != NULL)
		json_write_raw(w, json, strlen(json));
	else
		json_write_null(w);
}

static void
put_added(struct json_writer *w, const struct added_token *t)
{
	json_write_object(w);
	json_put_uint(w, "id", t->id);
	put_text(w, "content", t->text, t->len);
	json_put_bool(w, "single_word", t->single_word);
	json_put_bool(w, "lstrip", t->lstrip);
	json_put_bool(w, "rstrip", t->rstrip);
	json_put_bool(w, "normalized", t->normalized);
	json_put_bool(w, "special", t->special);
	json_write_object_end(w);
}

static void
put_model(struct json_writer *w, const struct bpe *b)
{
	size_t len;
	const char *text = vocab_text(&b->vocab, b->unknown, &len);

	json_write_object(w);
	json_put_string(w, "type", "BPE");
	json_put_null(w, "dropout");
	if (text != NULL)
		put_text(w, "unk_token", text, len);
	else
		json_put_null(w, "unk_token");
	json_put_string(w, "continuing_subword_prefix", b->prefix);
	json_put_string(w, "end_of_word_suffix", b->suffix);
	json_put_bool(w, "fuse_unk", b->fuse_unknown);
	json_put_bool(w, "byte_fallback", b->byte_fallback);
	json_put_bool(w, "ignore_merges", b->ignore_merges);
	json_write_key(w, "vocab");
	json_write_object(w);
	for (size_t id = 0; id < b->vocab.size; id++) {
		text = vocab_text(&b->vocab, (int64_t)id, &len);
		if (text == NULL)
			continue;
		json_write_key_n(w, text, len);
		json_write_uint(w, id);
	}
	json_write_object_end(w);
	json_write_key(w, "merges");
	json_write_array(w);
	for (size_t i = 0; i < b->merge_count; i++) {
		json_write_array(w);
		text = vocab_text(&b->vocab, b->merges[i].left, &len);
		json_write_string_n(w, text, len);
		text = vocab_text(&b->vocab, b->merges[i].right, &len);
		json_write_string_n(w, text, len);
		json_write_array_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

int
tokenizer_write_json(const struct tokenizer *t, struct json_writer *w)
{
	json_write_object(w);
	json_put_string(w, "version", "1.0");
	json_put_null(w, "truncation");
	json_put_null(w, "padding");
	json_write_key(w, "added_tokens");
	json_write_array(w);
	for (size_t i = 0; i < t->added.count; i++)
		put_added(w, &t->added.list[i]);
	json_write_array_end(w);
	put_part(w, "normalizer", t->normalizer_json);
	put_part(w, "pre_tokenizer", t->pretokenizer_json);
	put_part(w, "post_processor", t->post_json);
	put_part(w, "decoder", t->decoder_json);
	json_write_key(w, "model");
	put_model(w, &t->model);
	json_write_object_end(w);
	return w->failed ? -ENOMEM : 0;
}
