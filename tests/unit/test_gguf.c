/* GGUF headers that are right, and every way in which one can lie. */
#include "worker/files/gguf.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

static struct refusal refusal;

static struct gguf *
open_bytes(const struct bytes *b)
{
	struct gguf *g;
	int result = gguf_open(&g, b->data, b->len, "x.gguf", &refusal);

	CHECK((result == 0) == (g != NULL));
	return g;
}

/* Keys of every kind, two tensors. */
static struct bytes
good(uint32_t version)
{
	struct bytes b = {NULL, 0};

	put_gguf_head(&b, version, 2, 9);
	put_key_text(&b, "general.architecture", "llama");
	put_key_u32(&b, "n", 7);
	put_key_f32(&b, "f", 0.5f);
	put_key(&b, "yes", 7);
	put_uint(&b, 1, 1);
	put_key(&b, "small", 1); /* i8 */
	put_uint(&b, 0xfe, 1);
	put_key(&b, "wide", 10); /* u64 */
	put_uint(&b, UINT64_C(1) << 40, 8);
	put_key(&b, "words", 9);
	put_uint(&b, 8, 4);
	put_uint(&b, 3, 8);
	put_text(&b, "a");
	put_text(&b, "");
	put_text(&b, "ccc");
	put_key(&b, "ints", 9);
	put_uint(&b, 3, 4); /* i16 */
	put_uint(&b, 2, 8);
	put_uint(&b, 0xffff, 2);
	put_uint(&b, 300, 2);
	put_key(&b, "floats", 9);
	put_uint(&b, 12, 4); /* f64 */
	put_uint(&b, 1, 8);
	put(&b, &(double){2.25}, 8);
	put_tensor(&b, "b", 3, 0, 0, 0);
	put_tensor(&b, "a", 32, 2, 2, 32); /* Q4_0: 2 rows of 18 bytes */
	put_padding(&b, 32);
	put_floats(&b, 3, 1, 1);
	put_padding(&b, 32);
	put_zeros(&b, 36);
	return b;
}

TEST(reads)
{
	for (uint32_t version = 2; version <= 3; version++) {
		struct bytes b = good(version);
		struct gguf *g = open_bytes(&b);
		struct gguf_array a;
		const char *text;
		uint64_t n = 5;
		int64_t i;
		double f;
		size_t len;
		bool yes = false;

		CHECK(gguf_string_is(g, "general.architecture", "llama"));
		CHECK(!gguf_string_is(g, "general.architecture", "llam"));
		CHECK(gguf_uint(g, "n", &n) && n == 7);
		CHECK(!gguf_uint(g, "small", &n) && n == 7); /* negative */
		CHECK(!gguf_uint(g, "f", &n) && !gguf_uint(g, "absent", &n));
		CHECK(gguf_uint(g, "wide", &n) && n == UINT64_C(1) << 40);
		CHECK(gguf_float(g, "f", &f) && f == 0.5);
		CHECK(gguf_float(g, "small", &f) && f == -2);
		CHECK(gguf_bool(g, "yes", &yes) && yes);
		CHECK(!gguf_bool(g, "n", &yes));
		CHECK(gguf_strings(g, "words", &a) && a.count == 3 && !gguf_ints(g, "words", &a));
		CHECK(gguf_next_string(&a, &text, &len) && len == 1 && text[0] == 'a');
		CHECK(gguf_next_string(&a, &text, &len) && len == 0);
		CHECK(gguf_next_string(&a, &text, &len) && len == 3);
		CHECK(!gguf_next_string(&a, &text, &len));
		CHECK(gguf_ints(g, "ints", &a) && gguf_next_int(&a, &i) && i == -1);
		CHECK(gguf_next_int(&a, &i) && i == 300 && !gguf_next_int(&a, &i));
		CHECK(gguf_key_at(g, 0, &text, &len) && len == 1 && text[0] == 'f');
		CHECK(!gguf_key_at(g, 9, &text, &len));
		gguf_free(g);
		bytes_free(&b);
	}
}

TEST(tensors)
{
	struct bytes b = good(3);
	struct gguf *g = open_bytes(&b);
	const struct gguf_tensor *t = gguf_tensor(g, "a");

	CHECK(gguf_tensor_count(g) == 2 && gguf_tensor(g, "c") == NULL);
	CHECK(t->rows == 2 && t->cols == 32 && t->type == 2 && t->size == 36);
	CHECK((const unsigned char *)t->data == b.data + b.len - 36);
	t = gguf_tensor(g, "b");
	CHECK(t->rows == 1 && t->cols == 3 && t->size == 12);
	CHECK(((const float *)t->data)[2] == 3);
	CHECK(gguf_tensor_at(g, 0) == gguf_tensor(g, "a") && gguf_tensor_at(g, 2) == NULL);
	gguf_free(g);
	bytes_free(&b);
}

TEST(cut_everywhere)
{
	struct bytes b = good(3);

	for (size_t i = 0; i < b.len; i++) {
		unsigned char *copy = malloc(i + 1); /* its end is the sanitizer's to watch */
		struct bytes part = {copy, i};

		memcpy(copy, b.data, i);
		CHECK_MSG(open_bytes(&part) == NULL, "%zu bytes", i);
		free(copy);
	}
	put_zeros(&b, 31); /* filling */
	gguf_free(open_bytes(&b));
	put_zeros(&b, 1);
	CHECK(open_bytes(&b) == NULL);
	CHECK(strstr(refusal.text, "after its last tensor") != NULL);
	bytes_free(&b);
}

/* One file of a wrong head, key or tensor each. */
static void
refused(struct bytes b, const char *word)
{
	struct gguf *g = open_bytes(&b);

	CHECK_MSG(g == NULL && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", g == NULL ? refusal.text : "opened", word);
	gguf_free(g);
	bytes_free(&b);
}

static struct bytes
head(uint32_t version, uint64_t tensors, uint64_t keys)
{
	struct bytes b = {NULL, 0};

	put_gguf_head(&b, version, tensors, keys);
	return b;
}

TEST(wrong_heads)
{
	struct bytes b = {NULL, 0};

	put(&b, "GGML", 4);
	put_zeros(&b, 40);
	refused(b, "not a GGUF file");
	refused(head(1, 0, 0), "version 1");
	refused(head(4, 0, 0), "version 4");
	refused(head(0x03000000, 0, 0), "big-endian");
	refused(head(3, UINT64_MAX, 0), "tensors");
	refused(head(3, 0, UINT64_MAX), "keys");
	refused(head(3, 1000000, 0), "cut short");
	refused(head(3, 0, 60000), "cut short");
}

static struct bytes
one_key(const char *key, uint32_t type, uint64_t value, size_t size)
{
	struct bytes b = head(3, 0, 1);

	put_key(&b, key, type);
	put_uint(&b, value, size);
	return b;
}

TEST(wrong_keys)
{
	struct bytes b = one_key("k", 8, UINT64_MAX, 8);

	refused(b, "cut short");
	refused(one_key("", 4, 1, 4), "empty");
	refused(one_key("k", 13, 1, 4), "does not exist");
	b = one_key("general.alignment", 4, 33, 4);
	refused(b, "power of two");
	refused(one_key("general.alignment", 4, 0, 4), "power of two");
	refused(one_key("general.alignment", 6, 0, 4), "power of two");
	refused(one_key("general.alignment", 4, 1 << 30, 4), "power of two");
	b = head(3, 0, 2);
	put_key_u32(&b, "twice", 1);
	put_key_u32(&b, "twice", 1);
	refused(b, "twice");
	b = head(3, 0, 1);
	put_text(&b, "array");
	put_uint(&b, 9, 4);
	put_uint(&b, 9, 4); /* of arrays */
	put_uint(&b, 1, 8);
	put_zeros(&b, 64);
	refused(b, "array");
	for (uint32_t item = 0; item < 13; item++) {
		if (item == 9)
			continue;
		b = head(3, 0, 1);
		put_key(&b, "array", 9);
		put_uint(&b, item, 4);
		put_uint(&b, (UINT64_C(1) << 61) + 1, 8); /* its size in bytes overflows */
		put_zeros(&b, 64);
		refused(b, "cut short");
	}
}

static struct bytes
one_tensor(const char *name, uint64_t cols, uint64_t rows, uint32_t type, uint64_t offset)
{
	struct bytes b = head(3, 1, 0);

	put_tensor(&b, name, cols, rows, type, offset);
	put_padding(&b, 32);
	put_zeros(&b, 64);
	return b;
}

TEST(wrong_tensors)
{
	struct bytes b;

	refused(one_tensor("a", 16, 0, 23, 0), "IQ4_XS");
	refused(one_tensor("a", 16, 0, 99, 0), "unknown");
	refused(one_tensor("a", 33, 1, 2, 0), "multiple of the block");
	refused(one_tensor("a", 0, 0, 0, 0), "impossible shape");
	refused(one_tensor("a", UINT64_MAX, 0, 0, 0), "impossible shape");
	refused(one_tensor("a", UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0), "impossible shape");
	refused(one_tensor("a", 17, 0, 0, 0), "ends inside");
	refused(one_tensor("a", 4, 0, 0, 32), "hole");
	refused(one_tensor("a", 4, 0, 0, UINT64_MAX - 31), "hole");
	refused(one_tensor("a", 4, 0, 0, 4), "hole");
	refused(one_tensor("", 16, 0, 0, 0), "0 bytes");
	refused(one_tensor("a\tb", 16, 0, 0, 0), "control");
	b = head(3, 2, 0);
	put_tensor(&b, "a", 16, 0, 0, 0);
	put_tensor(&b, "b", 16, 0, 0, 32);
	put_padding(&b, 32);
	put_zeros(&b, 96);
	refused(b, "another tensor lies");
	b = head(3, 2, 0);
	put_tensor(&b, "a", 8, 0, 0, 0);
	put_tensor(&b, "a", 8, 0, 0, 32);
	put_padding(&b, 32);
	put_zeros(&b, 64);
	refused(b, "twice");
	b = head(3, 1, 0);
	put_text(&b, "a");
	put_uint(&b, 5, 4);
	put_zeros(&b, 80);
	refused(b, "dimensions");
}

TEST_MAIN(TEST_CASE(reads), TEST_CASE(tensors), TEST_CASE(cut_everywhere), TEST_CASE(wrong_heads),
    TEST_CASE(wrong_keys), TEST_CASE(wrong_tensors))
