/* Datums: the rule of the contract over a small tokenizer, their ids, the store, the blob. */
#include "worker/text/render.h"

#include <unistd.h>

#include "ipc/blob.h"
#include "tests/unit/test.h"
#include "worker/text/rendered.h"

/* Bytes a to z, < > / and newline, each its own token; "ab" and ">a" are merged. */
static struct tokenizer *
small_tokenizer(void)
{
	struct tokenizer *t = NULL;
	struct refusal r = {0};
	char json[4096], *at = json;
	const char *letters = "abcdefghijklmnopqrstuvwxyz<>/";
	int id = 0;

	at += sprintf(at,
	    "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], "
	    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
	    "\"add_prefix_space\": "
	    "false, \"trim_offsets\": false, \"use_regex\": false}, \"post_processor\": null, "
	    "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": "
	    "true, "
	    "\"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, "
	    "\"unk_token\": null, "
	    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": "
	    "false, "
	    "\"byte_fallback\": false, \"ignore_merges\": false, \"vocab\": {");
	for (const char *c = letters; *c != '\0'; c++)
		at += sprintf(at, "\"%c\": %d, ", *c, id++);
	at += sprintf(at, "\"\\u010a\": %d, \"ab\": %d, \">a\": %d}, ", id, id + 1, id + 2);
	sprintf(at, "\"merges\": [\"a b\", \"> a\"]}}");
	CHECK_MSG(tokenizer_open_json(&t, json, strlen(json), &r) == 0, "%s", r.text);
	return t;
}

static struct chat_template *
compiled(const char *source)
{
	struct chat_template *t = NULL;
	struct refusal r = {0};

	CHECK_MSG(chat_template_compile(&t, source, strlen(source), &r) == 0, "%s", r.text);
	return t;
}

static const char plain[] = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}/{% endfor %}"
			    "{% if add_generation_prompt %}<a>{% endif %}";

/* Renders with one setting after the other; r.text is "" where it went well. */
struct bench {
	struct tokenizer *tokenizer;
	struct chat_template *template;
	struct renderer renderer;
	struct refusal r;
	struct datum d;
};

static void
open_bench(struct bench *b, const char *source)
{
	memset(b, 0, sizeof(*b));
	b->tokenizer = small_tokenizer();
	b->template = compiled(source);
	b->renderer = (struct renderer){
	    .tokenizer = b->tokenizer, .template = b->template, .session_id = "session"};
}

static void
close_bench(struct bench *b)
{
	datum_fini(&b->d);
	tokenizer_free(b->tokenizer);
	chat_template_free(b->template);
}

static int
run(struct bench *b, const char *id, const char *messages, uint64_t limit)
{
	struct json_doc *doc;
	int rc;

	datum_fini(&b->d);
	b->r.text[0] = '\0';
	b->renderer.maximum_datum_tokens = limit;
	CHECK(json_parse(&doc, messages, strlen(messages), NULL) == 0);
	rc = datum_render(&b->d, &b->renderer, id, json_root(doc), &b->r);
	json_free(doc);
	return rc;
}

#define TALK(answer)                                                                               \
	"[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "       \
	"\"" answer "\"}]"

/* <u>q/<a>xy/ : the prefix is the first 8 bytes; x, y and / are the target. */
TEST(supervised_after_the_border)
{
	static const int32_t want[] = {26, 20, 27, 16, 28, 26, 0, 27, 23, 24, 28};
	struct bench b;

	open_bench(&b, plain);
	CHECK(run(&b, "e", TALK("xy"), 0) == 0);
	CHECK(b.d.length == 11 && b.d.supervised_count == 3);
	for (uint32_t i = 0; i < b.d.length && i < 11; i++) {
		CHECK_MSG(b.d.ids[i] == want[i], "%u: %d", i, b.d.ids[i]);
		CHECK(b.d.supervised[i] == (i >= 8));
	}
	close_bench(&b);
}

/* The answer starts with a: the token >a lies over the border and is context. */
TEST(straddling_token_is_context)
{
	struct bench b;

	open_bench(&b, plain);
	CHECK(run(&b, "e", TALK("ay"), 0) == 0);
	CHECK(b.d.length == 10 && b.d.supervised_count == 2);
	CHECK(b.d.ids[7] == 31 && b.d.supervised[7] == 0 && b.d.supervised[8] == 1);
	close_bench(&b);
}

TEST(trimmed_from_the_front)
{
	struct bench b;

	open_bench(&b, plain);
	CHECK(run(&b, "e", TALK("xy"), 11) == 0 && b.d.length == 11);
	CHECK(run(&b, "e", TALK("xy"), 4) == 0 && b.d.length == 4 && b.d.supervised_count == 3);
	CHECK(b.d.ids[0] == 27 && b.d.supervised[0] == 0 && b.d.supervised[1] == 1);
	CHECK(run(&b, "e", TALK("xy"), 3) == 0 && b.d.length == 3 && b.d.supervised[0] == 1);
	CHECK(run(&b, "e", TALK("xy"), 2) != 0 && b.r.status == 422);
	CHECK_STR(
	    b.r.text, "maximum_datum_tokens cannot retain the complete supervised target for e");
	close_bench(&b);
}

TEST(refusals_in_their_order)
{
	struct bench b;

	/* raises, although the border is lost as well */
	open_bench(&b, "{{ raise_exception('not ' + messages[0].content) }}");
	CHECK(run(&b, "e", TALK("x"), 0) != 0 && b.r.status == 422);
	CHECK_STR(b.r.text, "the model chat template refused e: not q");
	close_bench(&b);
	open_bench(&b, "a{% if add_generation_prompt %}{{ messages[0].a.b }}{% endif %}");
	CHECK(run(&b, "e", TALK("x"), 0) != 0);
	CHECK_STR(b.r.text,
	    "the model chat template refused e: 'dict object' has no attribute 'a' (line 1)");
	close_bench(&b);
	open_bench(&b, "{{ messages|length }}{% if add_generation_prompt %}x{% endif %}");
	CHECK(run(&b, "e/1", TALK("x"), 2) != 0);
	CHECK_STR(b.r.text, "the model chat template did not preserve the target boundary for e/1");
	close_bench(&b);
	open_bench(&b, "abcde{% if add_generation_prompt %}{% endif %}");
	CHECK(run(&b, "e", TALK("x"), 2) != 0);
	CHECK_STR(b.r.text, "the rendered target of e has no supervised token");
	close_bench(&b);
}

TEST(ids_are_digests)
{
	struct bench b;
	char first[65];

	open_bench(&b, plain);
	CHECK(run(&b, "e", TALK("xy"), 0) == 0);
	memcpy(first, b.d.id, 65);
	CHECK(strlen(first) == 64 && strspn(first, "0123456789abcdef") == 64);
	CHECK(run(&b, "e", TALK("xy"), 0) == 0 && strcmp(first, b.d.id) == 0);
	CHECK(run(&b, "f", TALK("xy"), 0) == 0 && strcmp(first, b.d.id) != 0);
	CHECK(run(&b, "e", TALK("xz"), 0) == 0 && strcmp(first, b.d.id) != 0);
	CHECK(run(&b, "e", TALK("xy"), 10) == 0 && strcmp(first, b.d.id) != 0);
	b.renderer.session_id = "other";
	CHECK(run(&b, "e", TALK("xy"), 0) == 0 && strcmp(first, b.d.id) != 0);
	close_bench(&b);
}

static struct datum
made(unsigned n)
{
	struct datum d = {.length = 2, .supervised_count = 1};

	snprintf(d.id, sizeof(d.id), "%064x", n);
	d.ids = malloc(2 * sizeof(*d.ids) + 2);
	d.supervised = (uint8_t *)(d.ids + 2);
	d.ids[0] = (int32_t)n;
	d.ids[1] = 7;
	d.supervised[0] = 0;
	d.supervised[1] = 1;
	return d;
}

TEST(store_keeps_each_id_once)
{
	struct datum_store *s;
	struct datum d;
	char id[65];

	CHECK(datum_store_new(&s) == 0);
	for (unsigned i = 0; i < 5000; i++) {
		d = made(i);
		CHECK(datum_store_add(s, &d) == 0);
	}
	d = made(17);
	CHECK(datum_store_add(s, &d) == 0 && datum_store_count(s) == 5000);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(id, sizeof(id), "%064x", i);
		CHECK(datum_store_find(s, id) != NULL &&
		      datum_store_find(s, id)->ids[0] == (int32_t)i);
	}
	CHECK(datum_store_find(s, "") == NULL && datum_store_find(s, "x") == NULL);
	snprintf(id, sizeof(id), "%064x", 5000);
	CHECK(datum_store_find(s, id) == NULL);
	datum_store_free(s);
	datum_store_free(NULL);
}

static int
blob_of_two(void)
{
	struct rendered r;
	struct datum d;
	int fd;

	rendered_init(&r);
	for (unsigned i = 1; i < 3; i++) {
		d = made(i);
		rendered_add(&r, i == 1 ? "one" : "tw\"o", &d);
		datum_fini(&d);
	}
	fd = rendered_blob(&r, "test");
	rendered_fini(&r);
	rendered_fini(&r);
	return fd;
}

TEST(blob_holds_answer_and_datums)
{
	struct datum_store *s;
	struct blob_view view;
	struct refusal r = {0};
	struct json_doc *doc;
	uint64_t len;
	int fd = blob_of_two();
	const struct datum *d;
	struct json first;
	char id[65];

	CHECK(fd >= 0 && blob_is_sealed(fd) && blob_map(&view, fd) == 0);
	memcpy(&len, view.data, 8);
	CHECK(json_parse(&doc, (const char *)view.data + 8, (size_t)len, NULL) == 0);
	first = json_first(json_get(json_root(doc), "datums"));
	snprintf(id, sizeof(id), "%064x", 1);
	CHECK(json_count(first) == 3 && json_string_is(json_get(first, "datum_id"), id));
	CHECK(json_string_is(json_get(json_next(first), "example_id"), "tw\"o"));
	CHECK(datum_store_new(&s) == 0);
	CHECK_MSG(rendered_read(view.data, view.len, 8, s, &r) == 0, "%s", r.text);
	d = datum_store_find(s, id);
	CHECK(datum_store_count(s) == 2 && d != NULL && d->length == 2 && d->ids[1] == 7 &&
	      d->supervised[1] == 1 && d->supervised_count == 1);
	/* an id that the vocabulary does not have */
	CHECK(rendered_read(view.data, view.len, 7, s, &r) != 0 && r.status == 422);
	datum_store_free(s);
	json_free(doc);
	blob_unmap(&view);
	close(fd);
}

/* Every truncation and every changed byte: refused or read, never beyond the bytes. */
TEST(damaged_blobs)
{
	struct datum_store *s;
	struct blob_view view;
	struct refusal r;
	int fd = blob_of_two();
	uint64_t len;

	CHECK(blob_map(&view, fd) == 0);
	memcpy(&len, view.data, 8);
	for (size_t n = 0; n < view.len; n++) {
		char *copy = malloc(n + 1);

		memcpy(copy, view.data, n);
		CHECK(datum_store_new(&s) == 0);
		CHECK(rendered_read(copy, n, 8, s, &r) != 0);
		datum_store_free(s);
		free(copy);
	}
	for (size_t at = 0; at < view.len; at++) {
		char *copy = malloc(view.len);

		memcpy(copy, view.data, view.len);
		copy[at] = (char)(copy[at] ^ 0xff);
		CHECK(datum_store_new(&s) == 0);
		if (at < 8 || at >= 8 + len)
			CHECK_MSG(rendered_read(copy, view.len, 8, s, &r) != 0, "byte %zu", at);
		datum_store_free(s);
		free(copy);
	}
	blob_unmap(&view);
	close(fd);
}

TEST_MAIN(TEST_CASE(supervised_after_the_border), TEST_CASE(straddling_token_is_context),
    TEST_CASE(trimmed_from_the_front), TEST_CASE(refusals_in_their_order),
    TEST_CASE(ids_are_digests), TEST_CASE(store_keeps_each_id_once),
    TEST_CASE(blob_holds_answer_and_datums), TEST_CASE(damaged_blobs))
