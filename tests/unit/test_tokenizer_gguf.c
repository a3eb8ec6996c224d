/* Tokenizers from GGUF metadata: files of a few hundred bytes, made here. */
#include "tests/unit/test.h"

#include <stdint.h>

#include "tests/unit/tiny_tokenizer.h"

struct file {
	char data[1 << 16];
	size_t len;
	uint64_t keys;
};

static void
put(struct file *f, const void *data, size_t len)
{
	memcpy(f->data + f->len, data, len);
	f->len += len;
}

static void
put_u32(struct file *f, uint32_t v)
{
	put(f, &v, 4);
}

static void
put_u64(struct file *f, uint64_t v)
{
	put(f, &v, 8);
}

static void
put_text(struct file *f, const char *text)
{
	put_u64(f, strlen(text));
	put(f, text, strlen(text));
}

static void
put_key(struct file *f, const char *key, uint32_t type)
{
	put_text(f, key);
	put_u32(f, type);
	f->keys++;
}

static void
put_string(struct file *f, const char *key, const char *value)
{
	put_key(f, key, 8);
	put_text(f, value);
}

/* The 256 bytes, then "extra" tokens separated by |, all of type 1 but for the extra ones. */
static void
put_vocabulary(struct file *f, const char *extra, int32_t type)
{
	char text[64];
	uint64_t count = 256;

	for (const char *p = extra; *p != '\0'; p += strcspn(p, "|"), p += *p == '|')
		count++;
	put_key(f, "tokenizer.ggml.tokens", 9);
	put_u32(f, 8);
	put_u64(f, count);
	for (unsigned i = 0; i < 256; i++) {
		text[glyph_put(text, (unsigned char)i)] = '\0';
		put_text(f, text);
	}
	for (const char *p = extra; *p != '\0'; p += strcspn(p, "|"), p += *p == '|') {
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(p, "|"), p);
		put_text(f, text);
	}
	put_key(f, "tokenizer.ggml.token_type", 9);
	put_u32(f, 5);
	put_u64(f, count);
	for (uint64_t i = 0; i < count; i++)
		put_u32(f, i < 256 ? 1 : (uint32_t)type);
}

static void
put_merges(struct file *f, const char *merge)
{
	put_key(f, "tokenizer.ggml.merges", 9);
	put_u32(f, 8);
	put_u64(f, merge != NULL);
	if (merge != NULL)
		put_text(f, merge);
}

static void
begin(struct file *f)
{
	*f = (struct file){0};
	put(f, "GGUF", 4);
	put_u32(f, 3);
	put_u64(f, 0);
	put_u64(f, 0);
}

static int
open_file(struct file *f, struct tokenizer **t, struct refusal *r)
{
	struct gguf *g = NULL;
	int rc;

	memcpy(f->data + 16, &f->keys, 8);
	rc = gguf_open(&g, f->data, f->len, "test.gguf", r);
	CHECK_MSG(rc == 0, "%s", r->text);
	*t = NULL;
	if (rc == 0)
		rc = tokenizer_open_gguf(t, g, r);
	gguf_free(g);
	return rc;
}

static void
begin_whole(struct file *f, const char *pre, const char *extra, int32_t type, const char *merge)
{
	begin(f);
	put_string(f, "tokenizer.ggml.model", "gpt2");
	put_string(f, "tokenizer.ggml.pre", pre);
	put_vocabulary(f, extra, type);
	put_merges(f, merge);
}

#define ENCODES(pre, input, want)                                                                  \
	do {                                                                                       \
		begin_whole(&f, pre, "00|<s>", 3, "0 0");                                          \
		CHECK_MSG(open_file(&f, &t, &r) == 0, "%s", r.text);                               \
		CHECK_STR(tiny_encode(t, input, sizeof(input) - 1), want);                         \
		tokenizer_free(t);                                                                 \
	} while (0)

static struct file f;
static struct tokenizer *t;
static struct refusal r;

TEST(names_say_how_text_is_cut)
{
	/* gpt2 takes digits together, smollm one by one, llama-bpe by threes, qwen2 one by one.
	   "00" is a control token here, so it is cut out first in all: use other digits to see
	   cuts. */
	ENCODES("gpt-2", "<s>e\xcc\x81", "257@0-3 101@3-4 204@4-6 129@4-6");
	ENCODES("qwen2", "<s>e\xcc\x81", "257@0-3 195@3-4 169@3-4"); /* NFC */
	ENCODES("qwen35", "e\xcc\x81", "195@0-1 169@0-1");
	ENCODES("smollm", "e\xcc\x81", "101@0-1 204@1-3 129@1-3");
	ENCODES("llama-bpe", "e\xcc\x81", "101@0-1 204@1-3 129@1-3");
}

/* "00" as an ordinary token: it is made only where both digits are in one word. */
TEST(digits_are_cut_as_the_name_says)
{
	static const struct {
		const char *pre, *want;
	} rows[] = {{"gpt-2", "256@0-2 256@2-4"}, {"gpt2", "256@0-2 256@2-4"},
	    {"phi-2", "256@0-2 256@2-4"}, {"smollm", "48@0-1 48@1-2 48@2-3 48@3-4"},
	    {"starcoder", "48@0-1 48@1-2 48@2-3 48@3-4"}, {"refact", "48@0-1 48@1-2 48@2-3 48@3-4"},
	    {"llama-bpe", "256@0-2 48@2-3 48@3-4"}, {"llama3", "256@0-2 48@2-3 48@3-4"},
	    {"llama-v3", "256@0-2 48@2-3 48@3-4"}, {"smaug-bpe", "256@0-2 48@2-3 48@3-4"},
	    {"dbrx", "256@0-2 48@2-3 48@3-4"}, {"qwen2", "48@0-1 48@1-2 48@2-3 48@3-4"},
	    {"deepseek-r1-qwen", "48@0-1 48@1-2 48@2-3 48@3-4"},
	    {"qwen35", "48@0-1 48@1-2 48@2-3 48@3-4"}, {"tekken", "48@0-1 48@1-2 48@2-3 48@3-4"},
	    {"gpt-4o", "256@0-2 48@2-3 48@3-4"}, {"deepseek-v3", "256@0-2 48@2-3 48@3-4"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin_whole(&f, rows[i].pre, "00", 1, "0 0");
		CHECK_MSG(open_file(&f, &t, &r) == 0, "%s: %s", rows[i].pre, r.text);
		CHECK_MSG(strcmp(tiny_encode(t, "0000", 4), rows[i].want) == 0, "%s: %s",
		    rows[i].pre, tiny_encode(t, "0000", 4));
		tokenizer_free(t);
	}
}

TEST(types_say_what_is_looked_for)
{
	char *text;
	size_t len;

	begin_whole(&f, "gpt-2", "<s>", 4, NULL); /* user-defined: found, never skipped */
	CHECK(open_file(&f, &t, &r) == 0);
	CHECK_STR(tiny_encode(t, "a<s>", 4), "97@0-1 256@1-4");
	CHECK(tokenizer_decode(t, (const int32_t[]){256}, 1, true, &text, &len) == 0 && len == 3);
	free(text);
	tokenizer_free(t);
	begin_whole(&f, "gpt-2", "<s>", 3, NULL); /* control: found, skipped */
	CHECK(open_file(&f, &t, &r) == 0);
	CHECK_STR(tiny_encode(t, "a<s>", 4), "97@0-1 256@1-4");
	CHECK(tokenizer_decode(t, (const int32_t[]){256}, 1, true, &text, &len) == 0 && len == 0);
	free(text);
	tokenizer_free(t);
	begin_whole(&f, "gpt-2", "<s>", 5, NULL); /* unused: not looked for */
	CHECK(open_file(&f, &t, &r) == 0);
	CHECK_STR(tiny_encode(t, "<s>", 3), "60@0-1 115@1-2 62@2-3");
	CHECK(tokenizer_vocabulary(t) == 257);
	tokenizer_free(t);
}

#define REFUSED(want)                                                                              \
	do {                                                                                       \
		CHECK(open_file(&f, &t, &r) == -1 && t == NULL);                                   \
		CHECK_MSG(strstr(r.text, want) != NULL, "\"%s\", want \"%s\"", r.text, want);      \
	} while (0)

TEST(what_is_not_known_is_named)
{
	begin(&f);
	REFUSED("tokenizer.ggml.model is missing");
	put_string(&f, "tokenizer.ggml.model", "llama");
	REFUSED("tokenizer.ggml.model: llama is not supported, only gpt2");
	begin(&f);
	put_string(&f, "tokenizer.ggml.model", "gpt2");
	REFUSED("tokenizer.ggml.pre is missing");
	put_string(&f, "tokenizer.ggml.pre", "mystery");
	REFUSED("tokenizer.ggml.pre: mystery is not supported");
	begin_whole(&f, "gpt-2", "a", 1, NULL);
	REFUSED("tokenizer.ggml.tokens[256] is there twice: a");
	begin_whole(&f, "gpt-2", "", 1, "a b");
	REFUSED("tokenizer.ggml.merges[0] has or makes a text that is no token");
	begin_whole(&f, "gpt-2", "", 1, "ab");
	REFUSED("tokenizer.ggml.merges[0] is not two tokens");
	begin_whole(&f, "gpt-2", "\xff", 1, NULL);
	REFUSED("tokenizer.ggml.tokens has a text that is not UTF-8");
	begin(&f);
	put_string(&f, "tokenizer.ggml.model", "gpt2");
	put_string(&f, "tokenizer.ggml.pre", "gpt-2");
	REFUSED("tokenizer.ggml.tokens is missing");
}

TEST_MAIN(TEST_CASE(names_say_how_text_is_cut), TEST_CASE(digits_are_cut_as_the_name_says),
    TEST_CASE(types_say_what_is_looked_for), TEST_CASE(what_is_not_known_is_named))
