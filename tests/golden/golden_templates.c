/*
 * Compares chat templates with what transformers renders: golden_templates FOLDER, which has
 * cases.jsonl (published templates, read from fetched packages), prefix.jsonl and
 * jinja_features.jsonl. Prints each difference, then `N passed, N failed`.
 */
#include "tests/golden/text_check.h"
#include "worker/text/template.h"

/* The template at hand, kept while the lines name the same one. */
struct state {
	const char *folder;
	char digest[80];
	struct chat_template *template;
	struct refusal why;
};

static struct chat_template *
template_of(struct state *s, struct json source)
{
	const char *digest = json_string(json_get(source, "sha256"), NULL);
	size_t len;
	char *text;

	if (strcmp(s->digest, digest) == 0)
		return s->template;
	snprintf(s->digest, sizeof(s->digest), "%s", digest);
	chat_template_free(s->template);
	s->template = NULL;
	text = source_text(s->folder, source, &len, &s->why);
	if (text != NULL)
		chat_template_compile(&s->template, text, len, &s->why);
	free(text);
	return s->template;
}

/* Recorded messages are the first line, 300 characters at most. */
static bool
same_message(struct json want, const char *text)
{
	size_t len = 0, chars = 0, want_len = 0;
	const char *message = json_string(want, &want_len);

	for (; text[len] != '\0' && text[len] != '\n'; len++) {
		chars += ((unsigned char)text[len] & 0xc0) != 0x80;
		if (chars > 300)
			break;
	}
	return message != NULL && want_len == len && memcmp(message, text, len) == 0;
}

/* Whether an outcome is the recorded one. raised: by the template's own means. */
static bool
as_expected(struct json expect, const char *text, size_t len, bool raised, const struct refusal *r)
{
	struct json error = json_get(expect, "error");
	size_t want_len = 0;
	const char *want = json_string(json_get(expect, "text"), &want_len);

	if (want != NULL)
		return text != NULL && len == want_len && memcmp(text, want, len) == 0;
	if (text != NULL)
		return false;
	if (!json_string_is(json_get(error, "kind"), "raised"))
		return true;
	return raised && same_message(json_get(error, "message"), r->text);
}

static void
show(struct json expect, const char *text, size_t len, const struct refusal *r)
{
	size_t want_len = 0, at = 0;
	const char *want = json_string(json_get(expect, "text"), &want_len);

	if (want == NULL)
		want = json_string(json_get(json_get(expect, "error"), "message"), &want_len);
	if (text == NULL) {
		text = r->text;
		len = strlen(text);
	}
	while (at < len && at < want_len && text[at] == want[at])
		at++;
	at = at > 40 ? at - 40 : 0;
	printf("    want ...%.*s\n    got  ...%.*s\n",
	    want_len - at > 160 ? 160 : (int)(want_len - at), want + at,
	    len - at > 160 ? 160 : (int)(len - at), text + at);
}

/* Renders a conversation as it is recorded, arguments of tool calls as they are. */
static char *
render(const struct chat_template *t, struct json messages, size_t count, bool generation,
    struct json variables, size_t *len, bool *raised, struct refusal *r)
{
	struct chat_render in = {.messages = messages,
	    .variables = variables,
	    .count = count,
	    .add_generation_prompt = generation,
	    .text_arguments = true};
	char *text = NULL;

	chat_template_run(t, &in, &text, len, r);
	*raised = in.raised;
	return text;
}

static void
check_case(struct json line, void *state)
{
	struct state *s = state;
	struct chat_template *t = template_of(s, json_get(line, "template"));
	struct json expect = json_get(line, "expect"), messages = json_get(line, "messages");
	bool generation = json_true(json_get(line, "add_generation_prompt")), raised = false;
	struct refusal r = s->why;
	char *text = NULL;
	size_t len = 0;

	if (t != NULL)
		text = render(t, messages, json_count(messages), generation,
		    json_get(line, "variables"), &len, &raised, &r);
	if (!check(t != NULL && as_expected(expect, text, len, raised, &r), "%s/%s%s differs",
		json_string(json_get(line, "name"), NULL),
		json_string(json_get(line, "conversation"), NULL),
		generation ? " with a generation prompt" : ""))
		show(expect, text, len, &r);
	free(text);
}

/* The conversations of cases.jsonl, to be found again by name for prefix.jsonl. */
struct conversations {
	struct state *s;
	struct json cases; /* an array of the lines */
};

static void
check_prefix(struct json line, void *state)
{
	const struct conversations *c = state;
	const char *name = json_string(json_get(line, "name"), NULL);
	const char *conversation = json_string(json_get(line, "conversation"), NULL);
	const char *status = json_string(json_get(line, "status"), NULL), *got;
	size_t full_len = 0, prefix_len = 0, common = 0;
	char *full = NULL, *prefix = NULL, both[40];
	struct refusal r;
	int64_t want;
	bool raised;

	json_foreach (test, c->cases) {
		struct json messages = json_get(test, "messages");
		const struct chat_template *t;

		if (!json_string_is(json_get(test, "name"), name) ||
		    !json_string_is(json_get(test, "conversation"), conversation))
			continue;
		t = template_of(c->s, json_get(test, "template"));
		if (t == NULL)
			break;
		full = render(t, messages, json_count(messages), false, json_get(test, "variables"),
		    &full_len, &raised, &r);
		prefix = render(t, messages, json_count(messages) - 1, true,
		    json_get(test, "variables"), &prefix_len, &raised, &r);
		break;
	}
	while (full != NULL && prefix != NULL && common < full_len && common < prefix_len &&
	       full[common] == prefix[common])
		common++;
	snprintf(both, sizeof(both), "error in %s%s%s", full == NULL ? "full" : "",
	    full == NULL && prefix == NULL ? "/" : "", prefix == NULL ? "prefix" : "");
	got = full == NULL || prefix == NULL ? both
	      : common == prefix_len	     ? "preserved"
					     : "not preserved";
	check(
	    strcmp(got, status) == 0, "%s/%s: prefix %s, want %s", name, conversation, got, status);
	if (json_int64(json_get(line, "common_bytes"), &want) && strcmp(got, status) == 0)
		check((int64_t)common == want, "%s/%s: %zu common bytes, want %lld", name,
		    conversation, common, (long long)want);
	free(full);
	free(prefix);
}

static void
check_feature(struct json line, void *state)
{
	struct json expect = json_get(line, "expect");
	struct tm now = {
	    .tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_hour = 9, .tm_min = 8, .tm_sec = 7};
	struct chat_render in = {.context = json_get(line, "context"), .now = &now};
	struct chat_template *t;
	struct refusal r;
	size_t len;
	const char *source = json_string(json_get(line, "template"), &len);
	char *text = NULL;

	(void)state;
	timegm(&now);
	if (chat_template_compile(&t, source, len, &r) == 0)
		chat_template_run(t, &in, &text, &len, &r);
	if (!check(as_expected(expect, text, len, in.raised, &r), "%s: %s",
		json_string(json_get(line, "name"), NULL), source))
		show(expect, text, len, &r);
	chat_template_free(t);
	free(text);
}

/* cases.jsonl as one array. */
static struct json_doc *
all_cases(const char *folder)
{
	char path[4096], *text, *array;
	struct json_doc *doc = NULL;
	size_t len;

	snprintf(path, sizeof(path), "%s/cases.jsonl", folder);
	text = read_whole(path, &len);
	if (text == NULL || (array = malloc(len + 3)) == NULL)
		return NULL;
	while (len > 0 && text[len - 1] == '\n')
		len--;
	for (size_t i = 0; i < len; i++)
		array[i + 1] = text[i] == '\n' ? ',' : text[i];
	array[0] = '[';
	array[len + 1] = ']';
	if (json_parse(&doc, array, len + 2, NULL) < 0)
		doc = NULL;
	free(array);
	free(text);
	return doc;
}

int
main(int argc, char **argv)
{
	struct state s = {.folder = argc > 1 ? argv[1] : "tests/data/golden/templates"};
	struct json_doc *doc;
	struct conversations c;

	check(each_line(s.folder, "jinja_features.jsonl", check_feature, NULL),
	    "%s has no jinja_features.jsonl", s.folder);
	check(
	    each_line(s.folder, "cases.jsonl", check_case, &s), "%s has no cases.jsonl", s.folder);
	doc = all_cases(s.folder);
	c = (struct conversations){&s, json_root(doc)};
	if (doc != NULL)
		each_line(s.folder, "prefix.jsonl", check_prefix, &c);
	json_free(doc);
	chat_template_free(s.template);
	return finish();
}
