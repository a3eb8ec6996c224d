/*
 * Compares datums with recorded ones: golden_masks FOLDER, which has cases.jsonl (a line without a
 * limit opens an example, those after it have other limits), offsets.jsonl (the rule alone) and
 * templates/. Tokenizers lie in ../tokenizers beside it (else beside the folder that the project
 * ships), or in fetched packages. A set whose
 * tokenizer or template cannot be opened counts as failed, by name. Prints each difference, then
 * `N passed, N failed`.
 */
#include "tests/golden/text_check.h"
#include "worker/text/render.h"

struct state {
	const char *folder;
	char set[128]; /* what is open now */
	struct tokenizer *tokenizer;
	struct chat_template *template;
	struct json_doc *opening; /* the line that opened the example */
	struct refusal why;
};

static int
open_tokenizer(struct state *s, struct json source)
{
	const char *path = json_string(json_get(source, "path"), NULL);
	size_t len, n = strlen(path);
	char file[4096], *bytes;
	struct gguf *gguf;
	int rc = -1;

	if (json_exists(json_get(source, "package")))
		package_path(file, source);
	else
		snprintf(file, sizeof(file), "%s/%s", s->folder, path);
	bytes = read_whole(file, &len);
	if (bytes == NULL) {
		snprintf(file, sizeof(file), "tests/data/golden/masks/%s", path);
		bytes = read_whole(file, &len);
	}
	if (bytes == NULL)
		return refuse(&s->why, 422, "%s is not there", file);
	if (n < 5 || strcmp(path + n - 5, ".gguf") != 0) {
		rc = tokenizer_open_json(&s->tokenizer, bytes, len, &s->why);
	} else if (gguf_open(&gguf, bytes, len, file, &s->why) == 0) {
		rc = tokenizer_open_gguf(&s->tokenizer, gguf, &s->why);
		gguf_free(gguf);
	}
	free(bytes);
	return rc;
}

/* Opens what an example's set needs, unless it is open. */
static void
open_set(struct state *s, struct json line)
{
	const char *name = json_string(json_get(line, "set"), NULL);
	char *text;
	size_t len;

	if (strcmp(s->set, name) == 0)
		return;
	snprintf(s->set, sizeof(s->set), "%s", name);
	tokenizer_free(s->tokenizer);
	chat_template_free(s->template);
	s->tokenizer = NULL;
	s->template = NULL;
	text = source_text(s->folder, json_get(line, "template"), &len, &s->why);
	if (text == NULL || chat_template_compile(&s->template, text, len, &s->why) != 0 ||
	    open_tokenizer(s, json_get(line, "tokenizer")) != 0) {
		chat_template_free(s->template);
		s->template = NULL;
		printf("%s: %s\n", name, s->why.text);
	}
	free(text);
}

static bool
same_datum(struct json expect, const struct datum *d, int64_t untrimmed)
{
	size_t at = 0, predicted = 0;
	struct json label = json_first(json_get(expect, "labels"));
	int64_t id, want, count, ahead;

	if (json_count(json_get(expect, "ids")) != d->length)
		return false;
	json_foreach (v, json_get(expect, "ids")) {
		if (!json_int64(v, &id) || !json_int64(label, &want) || id != d->ids[at] ||
		    d->supervised[at] != (want != -100))
			return false;
		predicted += at > 0 && d->supervised[at];
		at++;
		label = json_next(label);
	}
	return json_int64(json_get(expect, "supervised_token_count"), &count) &&
	       count == d->supervised_count &&
	       json_int64(json_get(expect, "predicted_token_count"), &ahead) &&
	       ahead == (int64_t)predicted &&
	       json_int64(json_get(expect, "dropped_context_tokens"), &want) &&
	       (untrimmed < 0 || want == untrimmed - d->length);
}

/* The wire gives arguments as text and the contract parses them. */
static struct json
expected(struct json line)
{
	struct json parsed = json_get(line, "expect_arguments_parsed");

	return json_exists(parsed) ? parsed : json_get(line, "expect");
}

static void
check_example(struct state *s, struct json line)
{
	struct json first = s->opening != NULL ? json_root(s->opening) : line;
	struct json expect = expected(line), error = json_get(expect, "error");
	const char *example = json_string(json_get(line, "example"), NULL), *detail;
	struct renderer r = {.tokenizer = s->tokenizer,
	    .template = s->template,
	    .variables = json_get(first, "variables"),
	    .session_id = "s"};
	struct datum d, whole = {0};
	struct refusal why = {0};
	int64_t limit = 0;
	int rc;
	bool good;

	if (s->template == NULL) {
		check(false, "%s: set %s is not supported: %s", example, s->set, s->why.text);
		return;
	}
	if (json_int64(json_get(line, "maximum_datum_tokens"), &limit))
		datum_render(&whole, &r, example, json_get(first, "messages"), &why);
	r.maximum_datum_tokens = (uint64_t)limit;
	rc = datum_render(&d, &r, example, json_get(first, "messages"), &why);
	detail = json_string(json_get(error, "detail"), NULL);
	if (json_exists(error))
		good = rc != 0 && why.status == 422 &&
		       (detail == NULL || strcmp(detail, why.text) == 0) &&
		       (!json_exists(json_get(error, "template_error")) ||
			   strncmp(why.text, "the model chat template refused ", 32) == 0) &&
		       (!json_exists(json_get(error, "reason")) ||
			   strstr(why.text, "no supervised token") != NULL);
	else
		good = rc == 0 && same_datum(expect, &d, limit == 0 ? d.length : whole.length);
	check(good, "%s, limit %lld differs%s%s", example, (long long)limit, rc != 0 ? ": " : "",
	    rc != 0 ? why.text : "");
	if (rc == 0)
		datum_fini(&d);
	datum_fini(&whole);
}

/* A copy of the line, kept for the ones that follow. */
static void
keep_opening(struct state *s, struct json line)
{
	struct json_writer w;
	const char *text;
	size_t len;

	json_free(s->opening);
	s->opening = NULL;
	json_writer_init(&w);
	json_write_value(&w, line);
	text = json_writer_text(&w, &len);
	json_parse(&s->opening, text, len, NULL);
	json_writer_fini(&w);
}

static void
check_line(struct json line, void *state)
{
	struct state *s = state;

	if (json_exists(json_get(line, "messages"))) {
		open_set(s, line);
		keep_opening(s, line);
	}
	check_example(s, line);
}

/* The rule alone, over offsets. */
static void
check_offsets(struct json line, void *state)
{
	struct json offsets = json_get(line, "offsets"), expect = json_get(line, "expect");
	struct json supervised = json_get(expect, "supervised");
	size_t count = json_count(offsets), n = 0, context, dropped;
	struct token *tokens = calloc(count + 1, sizeof(*tokens));
	int64_t border = 0, limit = 0, value, want_dropped = -1;
	bool good;
	int rc;

	(void)state;
	json_int64(json_get(line, "prefix_end"), &border);
	json_int64(json_get(line, "maximum_datum_tokens"), &limit);
	json_foreach (pair, offsets) {
		json_int64(json_first(pair), &value);
		tokens[n].start = (uint32_t)value;
		json_int64(json_next(json_first(pair)), &value);
		tokens[n++].end = (uint32_t)value;
	}
	rc = datum_border(tokens, count, (size_t)border, (uint64_t)limit, &context, &dropped);
	if (json_exists(json_get(expect, "error"))) {
		good = json_string_is(json_get(expect, "error"), "no supervised token")
			   ? context == count
			   : context < count && rc != 0;
	} else {
		json_int64(json_get(expect, "dropped_context_tokens"), &want_dropped);
		good = rc == 0 && context < count && want_dropped == (int64_t)dropped &&
		       json_count(supervised) == count - dropped;
		n = dropped;
		json_foreach (v, supervised) {
			good = good && json_int64(v, &value) && value == (n >= context);
			n++;
		}
	}
	check(good, "offsets, %s, limit %lld differ", json_string(json_get(line, "name"), NULL),
	    (long long)limit);
	free(tokens);
}

int
main(int argc, char **argv)
{
	struct state s = {.folder = argc > 1 ? argv[1] : "tests/data/golden/masks"};

	check(
	    each_line(s.folder, "cases.jsonl", check_line, &s), "%s has no cases.jsonl", s.folder);
	check(each_line(s.folder, "offsets.jsonl", check_offsets, &s), "%s has no offsets.jsonl",
	    s.folder);
	json_free(s.opening);
	tokenizer_free(s.tokenizer);
	chat_template_free(s.template);
	return finish();
}
