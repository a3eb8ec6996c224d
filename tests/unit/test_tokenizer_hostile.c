/* tokenizer.json files that must be refused, each by the name of what is wrong with it. */
#include "tests/unit/test.h"

#include "tests/unit/tiny_tokenizer.h"

static void
refused(const struct tiny *tiny, const char *want)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};

	CHECK_MSG(tiny_open(&t, tiny, &r) == -1 && t == NULL, "accepted; want: %s", want);
	CHECK_MSG(strstr(r.text, want) != NULL, "\"%s\", want \"%s\"", r.text, want);
	CHECK(r.status == 422);
	tokenizer_free(t);
}

static void
text_refused(const char *json, const char *want)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};

	CHECK(tokenizer_open_json(&t, json, strlen(json), &r) == -1);
	CHECK_MSG(strstr(r.text, want) != NULL, "\"%s\", want \"%s\"", r.text, want);
	tokenizer_free(t);
}

TEST(every_cut_is_refused)
{
	char *json = tiny_json(
	    &(struct tiny){.merges = "a a", .added = "[{\"id\":257,\"content\":\"<s>\"}]"});
	size_t len = strlen(json);

	for (size_t cut = 0; cut < len; cut++) {
		struct tokenizer *t = NULL;
		struct refusal r = {0};

		CHECK_MSG(tokenizer_open_json(&t, json, cut, &r) == -1, "cut at %zu", cut);
		CHECK(t == NULL && strncmp(r.text, "tokenizer.json: byte ", 21) == 0);
	}
	free(json);
}

TEST(other_models_are_named)
{
	text_refused("[]", "is not an object");
	text_refused("{}", "model is not an object");
	text_refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
	    "model.type: Unigram is not supported, only BPE");
	text_refused("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}",
	    "model.type: WordPiece is not supported");
	text_refused("{\"model\":{\"type\":7,\"vocab\":{}}}", "model.type: not a string");
	text_refused("{\"version\":\"2.0\",\"model\":{}}", "version is not 1.0");
	text_refused("{\"model\":{\"vocab\":{\"\\ud800\":0},\"merges\":[]}}", "lone surrogate");
}

TEST(wrong_types_are_named)
{
	text_refused("{\"model\":{\"vocab\":[],\"merges\":[]}}", "model.vocab is not an object");
	text_refused("{\"model\":{\"vocab\":{},\"merges\":{}}}", "model.merges is not an array");
	text_refused("{\"model\":{\"vocab\":{}}}", "model.merges is not an array");
	text_refused(
	    "{\"model\":{\"vocab\":{},\"merges\":[1]}}", "model.merges[0] is not two tokens");
	text_refused(
	    "{\"model\":{\"vocab\":{},\"merges\":[[\"a\"]]}}", "model.merges[0] is not two tokens");
	text_refused("{\"model\":{\"vocab\":{},\"merges\":[\"a b c\"]}}",
	    "model.merges[0] is not two tokens");
	text_refused("{\"model\":{\"vocab\":{},\"merges\":[[\"a\",7]]}}",
	    "model.merges[0] is not two tokens");
	refused(&(struct tiny){.model = "\"fuse_unk\":1,"}, "model.fuse_unk is not true or false");
	refused(&(struct tiny){.model = "\"dropout\":0.1,"}, "model.dropout is not supported");
	refused(&(struct tiny){.model = "\"unk_token\":\"<unk>\","},
	    "model.unk_token is not in model.vocab");
	refused(&(struct tiny){.model = "\"continuing_subword_prefix\":[],"},
	    "model.continuing_subword_prefix is not a short string");
	refused(&(struct tiny){.added = "{}"}, "added_tokens is not an array");
	refused(&(struct tiny){.steps = "\"normalizer\":7,"}, "normalizer is not an object");
	refused(&(struct tiny){.steps = "\"decoder\":{\"type\":7},"}, "decoder is not an object");
}

TEST(ids_are_judged)
{
	refused(&(struct tiny){.vocab = ",\"x1\":-1"}, "no number below 4194304: x1");
	refused(&(struct tiny){.vocab = ",\"x1\":4194304"}, "no number below 4194304: x1");
	refused(&(struct tiny){.vocab = ",\"x1\":1e9"}, "no number below 4194304: x1");
	refused(&(struct tiny){.vocab = ",\"x1\":\"7\""}, "no number below 4194304: x1");
	refused(&(struct tiny){.vocab = ",\"x1\":65"}, "has an id twice: x1");
	refused(&(struct tiny){.vocab = ",\"A\":256"}, "has a token twice: A");
	refused(&(struct tiny){.added = "[{\"id\":-1,\"content\":\"<s>\"}]"}, "out of range");
	refused(&(struct tiny){.added = "[{\"content\":\"<s>\"}]"}, "out of range");
	refused(&(struct tiny){.added = "[{\"id\":300,\"content\":\"<s>\"}]"},
	    "has the id 300, but 256 would be the next one");
	refused(&(struct tiny){.added = "[{\"id\":66,\"content\":\"A\"}]"},
	    "has the id 66, but 65 in model.vocab");
	refused(
	    &(struct tiny){
		.added = "[{\"id\":256,\"content\":\"x1\"},{\"id\":257,\"content\":\"x1\"}]"},
	    "the token with the id 257 is there twice");
	refused(&(struct tiny){.added = "[{\"id\":256,\"content\":\"\"}]"},
	    "no string of 1 to 4096 bytes");
	refused(&(struct tiny){.added = "[{\"id\":256,\"content\":\"x1\",\"lstrip\":\"yes\"}]"},
	    "lstrip is not true or false");
}

TEST(merges_name_tokens)
{
	text_refused("{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
	    "model.merges[0] has or makes a text that is no token: a b");
	text_refused(
	    "{\"model\":{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\",[\"a\",\"q\"]]}}",
	    "model.merges[1] has or makes a text that is no token: a q");
}

TEST(unknown_steps_are_named_by_their_path)
{
	refused(&(struct tiny){.steps = "\"normalizer\":{\"type\":\"Precompiled\"},"},
	    "normalizer.type: Precompiled is not supported");
	refused(
	    &(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
				    "{\"type\":\"Digits\"},{\"type\":\"UnicodeScripts\"}]},"},
	    "pre_tokenizer.pretokenizers[1].type: UnicodeScripts is not supported");
	refused(&(struct tiny){.steps = "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"},"},
	    "decoder.type: WordPiece is not supported");
	refused(&(struct tiny){.steps = "\"post_processor\":{\"type\":\"Sequence\",\"processors\":["
					"{\"type\":\"Mystery\"}]},"},
	    "post_processor.processors[0].type: Mystery is not supported");
	refused(&(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Sequence\"},"},
	    "pre_tokenizer.pretokenizers is not an array");
	refused(
	    &(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Odd\","
				    "\"pattern\":{\"Regex\":\"a\"}},"},
	    "pre_tokenizer.behavior is not known");
	refused(&(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
					"\"Isolated\",\"pattern\":\"a\"},"},
	    "pre_tokenizer.pattern is neither a String nor a Regex");
	refused(&(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
					"\"Isolated\",\"pattern\":{\"Regex\":\"(a\"}},"},
	    "pre_tokenizer.pattern: the pattern has a group without end");
}

TEST(a_catastrophic_pattern_refuses_the_text)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};
	char text[41];

	memset(text, 'a', 40);
	text[40] = '!';
	CHECK(tiny_open(&t,
		  &(struct tiny){.steps = "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
					  "\"Isolated\",\"pattern\":{\"Regex\":\"(a+)+$\"}},"},
		  &r) == 0);
	CHECK(strstr(tiny_encode(t, text, sizeof(text)),
		  "pre_tokenizer.pattern: the pattern takes too long") != NULL);
	CHECK_STR(tiny_encode(t, "b", 1), "98@0-1");
	tokenizer_free(t);
}

TEST(nested_and_long_sequences_end)
{
	char *steps = malloc(1 << 16);
	size_t n = 0;

	n += (size_t)sprintf(steps + n, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
	for (int i = 0; i < 100; i++)
		n += (size_t)sprintf(steps + n, "%s{\"type\":\"NFC\"}", i > 0 ? "," : "");
	sprintf(steps + n, "]},");
	refused(&(struct tiny){.steps = steps}, "is one step too many");
	n = (size_t)sprintf(steps, "\"normalizer\":");
	for (int i = 0; i < 70; i++)
		n += (size_t)sprintf(steps + n, "{\"type\":\"Sequence\",\"normalizers\":[");
	for (int i = 0; i < 70; i++)
		n += (size_t)sprintf(steps + n, "]}");
	sprintf(steps + n, ",");
	refused(&(struct tiny){.steps = steps}, "Too many nested values");
	free(steps);
}

/* A text that each step makes longer must not eat all memory. */
TEST(growth_is_bounded)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};
	char *steps = malloc(1 << 16);
	size_t n = 0;

	n += (size_t)sprintf(steps + n, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
	for (int i = 0; i < 40; i++)
		n += (size_t)sprintf(steps + n,
		    "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"}",
		    i > 0 ? "," : "");
	sprintf(steps + n, "]},");
	CHECK(tiny_open(&t, &(struct tiny){.steps = steps}, &r) == 0);
	CHECK_STR(tiny_encode(t, "aa", 2),
	    "refused: the tokenizer's normalizers make the text more than 32 times longer");
	tokenizer_free(t);
	free(steps);
}

TEST_MAIN(TEST_CASE(every_cut_is_refused), TEST_CASE(other_models_are_named),
    TEST_CASE(wrong_types_are_named), TEST_CASE(ids_are_judged), TEST_CASE(merges_name_tokens),
    TEST_CASE(unknown_steps_are_named_by_their_path),
    TEST_CASE(a_catastrophic_pattern_refuses_the_text), TEST_CASE(nested_and_long_sequences_end),
    TEST_CASE(growth_is_bounded))
