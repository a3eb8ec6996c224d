/* Encoding and decoding: merges, added tokens, offsets, sizes. Expected values by hand. */
#include "tests/unit/test.h"

#include <time.h>

#include "ipc/utf8.h"
#include "tests/unit/tiny_tokenizer.h"

static struct tokenizer *
opened(const struct tiny *tiny)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};

	CHECK_MSG(tiny_open(&t, tiny, &r) == 0, "%s", r.text);
	return t;
}

#define ENCODES(t, text, want) CHECK_STR(tiny_encode(t, text, sizeof(text) - 1), want)

TEST(empty_text_has_no_tokens)
{
	struct tokenizer *t = opened(&(struct tiny){0});
	char *text;
	size_t len;

	ENCODES(t, "", "");
	CHECK(tokenizer_decode(t, NULL, 0, false, &text, &len) == 0);
	CHECK(len == 0 && text[0] == '\0');
	free(text);
	CHECK(tokenizer_vocabulary(t) == 256);
	tokenizer_free(t);
}

TEST(lowest_rank_first_leftmost_of_equals)
{
	/* ranks: bc 256, ab 257, aa 258, aaa 259 */
	struct tokenizer *t = opened(&(struct tiny){.merges = "b c|a b|a a|aa a"});

	ENCODES(t, "abc", "97@0-1 256@1-3");
	ENCODES(t, "ab", "257@0-2");
	ENCODES(t, "aab", "97@0-1 257@1-3");
	ENCODES(t, "aaaaa", "258@0-2 259@2-5");
	ENCODES(t, "aaaa", "258@0-2 258@2-4");
	CHECK(tokenizer_id(t, "aaa") == 259);
	CHECK(tokenizer_id(t, "aaaa") == -1);
	tokenizer_free(t);
}

/* Long words go another way (a heap) than short ones (a scan): both must agree. */
TEST(long_words_merge_like_short_ones)
{
	struct tokenizer *t = opened(&(struct tiny){.merges = "a b|b a|ab ab|ba b|a a|aa ab"});
	char word[200];
	unsigned seed = 1;

	for (int round = 0; round < 200; round++) {
		struct token *all, *one;
		size_t n_all, n_one, at = 0;
		struct refusal r;

		/* 'z' never merges: the long word is its parts, one after the other. */
		for (size_t i = 0; i < sizeof(word); i++) {
			seed = seed * 1103515245 + 12345;
			word[i] = i % 20 == 19 ? 'z' : (seed >> 16) % 2 == 0 ? 'a' : 'b';
		}
		CHECK(tokenizer_encode(t, word, sizeof(word), &all, &n_all, &r) == 0);
		for (size_t i = 0; i < sizeof(word); i += 20) {
			CHECK(tokenizer_encode(t, word + i, 20, &one, &n_one, &r) == 0);
			for (size_t k = 0; k < n_one; k++, at++)
				CHECK(at < n_all && all[at].id == one[k].id &&
				      all[at].start == one[k].start + i);
			free(one);
		}
		CHECK(at == n_all);
		free(all);
	}
	tokenizer_free(t);
}

TEST(a_megabyte_of_one_letter)
{
	struct tokenizer *t = opened(&(struct tiny){.merges = "a a|aa aa"});
	size_t len = 1 << 20, count = 0;
	char *text = malloc(len);
	struct token *tokens = NULL;
	struct refusal r = {0};
	clock_t start = clock();

	memset(text, 'a', len);
	CHECK_MSG(tokenizer_encode(t, text, len, &tokens, &count, &r) == 0, "%s", r.text);
	CHECK(count == len / 4);
	for (size_t i = 0; i < count; i++)
		CHECK(
		    tokens[i].id == 257 && tokens[i].start == 4 * i && tokens[i].end == 4 * i + 4);
	/* 0.2 s where it was measured; quadratic merging would take hours. */
	CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20);
	free(tokens);
	free(text);
	tokenizer_free(t);
}

TEST(offsets_are_whole_characters)
{
	struct tokenizer *t = opened(&(struct tiny){0});

	ENCODES(t, "x\xc3\xa9y", "120@0-1 195@1-3 169@1-3 121@3-4");
	tokenizer_free(t);
}

TEST(a_composed_character_has_its_bases_range)
{
	struct tokenizer *t =
	    opened(&(struct tiny){.steps = "\"normalizer\":{\"type\":\"NFC\"}," TINY_BYTES});

	/* e + U+0301 is U+00E9 (c3 a9); the mark belongs to nobody */
	ENCODES(t, "xe\xcc\x81y", "120@0-1 195@1-2 169@1-2 121@4-5");
	tokenizer_free(t);
}

TEST(added_tokens_swallow_whitespace_and_stand_alone)
{
	struct tokenizer *t = opened(&(struct tiny){
	    .added = "[{\"id\":256,\"content\":\"<l>\",\"lstrip\":true,\"special\":true},"
		     "{\"id\":257,\"content\":\"<r>\",\"rstrip\":true},"
		     "{\"id\":258,\"content\":\"wxw\",\"single_word\":true},"
		     "{\"id\":259,\"content\":\"<l><r>\"}]"});

	ENCODES(t, "a \n<l>b", "97@0-1 256@1-6 98@6-7");
	ENCODES(t, "a<r>\xe3\x80\x80 b", "97@0-1 257@1-8 98@8-9");
	ENCODES(t, "wxw wxww", "258@0-3 32@3-4 119@4-5 120@5-6 119@6-7 119@7-8");
	ENCODES(t, "\xc3\xa9wxw", "195@0-2 169@0-2 119@2-3 120@3-4 119@4-5");
	ENCODES(t, "<l><r>", "259@0-6"); /* the longest */
	CHECK(tokenizer_vocabulary(t) == 260);
	tokenizer_free(t);
}

TEST(special_tokens_can_be_skipped)
{
	struct tokenizer *t =
	    opened(&(struct tiny){.added = "[{\"id\":256,\"content\":\"<s>\",\"special\":true},"
					   "{\"id\":257,\"content\":\"<t>\",\"special\":false}]"});
	const int32_t ids[] = {256, 97, 257, 98, 1000, -5};
	char *text;
	size_t len;

	CHECK(tokenizer_decode(t, ids, 6, false, &text, &len) == 0);
	CHECK_STR(text, "<s>a<t>b");
	free(text);
	CHECK(tokenizer_decode(t, ids, 6, true, &text, &len) == 0);
	CHECK_STR(text, "a<t>b");
	free(text);
	tokenizer_free(t);
}

TEST(ill_formed_bytes_become_replacement_characters)
{
	struct tokenizer *t = opened(&(struct tiny){0});
	/* the Unicode standard's example, table 3-8 */
	const int32_t ids[] = {
	    0x61, 0xf1, 0x80, 0x80, 0xe1, 0x80, 0xc2, 0x62, 0x80, 0x63, 0x80, 0xbf, 0x64};
	char *text;
	size_t len;

	CHECK(tokenizer_decode(t, ids, sizeof(ids) / sizeof(*ids), false, &text, &len) == 0);
	CHECK_STR(text, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			"b\xef\xbf\xbd"
			"c\xef\xbf\xbd\xef\xbf\xbd"
			"d");
	free(text);
	tokenizer_free(t);
}

TEST(text_that_is_no_utf8_is_refused)
{
	struct tokenizer *t = opened(&(struct tiny){0});

	ENCODES(t, "a\x80", "refused: the text is not well-formed UTF-8 at byte 1");
	ENCODES(t, "\xed\xa0\x80", "refused: the text is not well-formed UTF-8 at byte 0");
	tokenizer_free(t);
}

/* Random bytes are refused, or come back as they went in. */
TEST(decoding_gives_back_what_was_encoded)
{
	struct tokenizer *t = opened(&(struct tiny){.merges = "a a|\xc4\xa0 a|b \xc3\xa9",
	    .steps = "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
		     "\"decoder\":{\"type\":\"ByteLevel\"},"});
	unsigned seed = 7, whole = 0;

	for (int round = 0; round < 3000; round++) {
		char text[64];
		size_t len = (size_t)round % sizeof(text), count, n, good;
		struct token *tokens;
		struct refusal r;
		int32_t ids[sizeof(text)];
		char *back;

		for (size_t i = 0; i < len; i++) {
			seed = seed * 1103515245 + 12345;
			text[i] = (char)(seed >> (round % 3 == 0 ? 16 : 25));
			if (round % 3 == 1 && i + 1 < len && (seed & 1024) != 0)
				memcpy(text + i++, "\xc3\xa9", 2);
		}
		good = utf8_valid_prefix(text, len);
		CHECK((tokenizer_encode(t, text, len, &tokens, &count, &r) == 0) == (good == len));
		if (good != len)
			continue;
		for (size_t i = 0; i < count; i++)
			ids[i] = tokens[i].id;
		CHECK(tokenizer_decode(t, ids, count, false, &back, &n) == 0);
		CHECK(n == len && memcmp(back, text, len) == 0);
		whole++;
		free(back);
		free(tokens);
	}
	CHECK(whole > 1000);
	tokenizer_free(t);
}

TEST(what_is_written_reads_as_the_same)
{
	struct tokenizer *t = opened(&(struct tiny){.merges = "a a|b c|aa bc",
	    .added = "[{\"id\":259,\"content\":\"<s>\",\"special\":true,\"rstrip\":true}]",
	    .steps = "\"normalizer\":{\"type\":\"NFC\"}," TINY_BYTES});
	struct tokenizer *again = NULL;
	struct json_writer w;
	struct refusal r = {0};
	const char *text;
	size_t len;

	json_writer_init(&w);
	CHECK(tokenizer_write_json(t, &w) == 0);
	text = json_writer_text(&w, &len);
	CHECK_MSG(tokenizer_open_json(&again, text, len, &r) == 0, "%s", r.text);
	ENCODES(t, "aabc<s> e\xcc\x81", "258@0-4 259@4-8 195@8-9 169@8-9");
	ENCODES(again, "aabc<s> e\xcc\x81", "258@0-4 259@4-8 195@8-9 169@8-9");
	tokenizer_free(again);
	tokenizer_free(t);
	json_writer_fini(&w);
}

TEST_MAIN(TEST_CASE(empty_text_has_no_tokens), TEST_CASE(lowest_rank_first_leftmost_of_equals),
    TEST_CASE(long_words_merge_like_short_ones), TEST_CASE(a_megabyte_of_one_letter),
    TEST_CASE(offsets_are_whole_characters), TEST_CASE(a_composed_character_has_its_bases_range),
    TEST_CASE(added_tokens_swallow_whitespace_and_stand_alone),
    TEST_CASE(special_tokens_can_be_skipped),
    TEST_CASE(ill_formed_bytes_become_replacement_characters),
    TEST_CASE(text_that_is_no_utf8_is_refused), TEST_CASE(decoding_gives_back_what_was_encoded),
    TEST_CASE(what_is_written_reads_as_the_same))
