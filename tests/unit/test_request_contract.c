/*
 * Every request body of the recorded contract (tests/data/golden/contract/cases.jsonl) through the
 * parsers, without a server: the same faults (type and loc), or none where the recording has none.
 */
#include "tests/unit/test.h"

#include "ipc/fault.h"
#include "ipc/json.h"
#include "ipc/request_body.h"
#include "ipc/request_render.h"
#include "supervisor/api/request_open.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_train.h"

#include <sodium.h>
#include <strings.h>

static const char cases_path[] = "tests/data/golden/contract/cases.jsonl";

struct buffer {
	char *data;
	size_t len, room;
};

static void
append(struct buffer *b, const char *data, size_t len)
{
	if (b->len + len + 1 > b->room) {
		b->room = (b->len + len + 1) * 2;
		b->data = realloc(b->data, b->room);
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

/* Text with replay.py's placeholders filled by something valid. */
static void
append_filled(struct buffer *b, const char *text, size_t len)
{
	static const char *const fills[][2] = {{"{base_model}", "org/model"},
	    {"{model_revision_json}", "null"}, {"{lora_rank}", "8"}, {"{other_rank}", "9"},
	    {"{seed}", "7"}, {"{other_seed}", "8"}, {"{store_url}", "https://localhost:1"},
	    {"{datum_id}", "d"}, {"{session_id}", "s"}};

	for (size_t i = 0; i < len;) {
		size_t step = 0;

		for (size_t f = 0; f < sizeof(fills) / sizeof(fills[0]); f++) {
			size_t n = strlen(fills[f][0]);

			if (i + n > len || memcmp(text + i, fills[f][0], n) != 0)
				continue;
			append(b, fills[f][1], strlen(fills[f][1]));
			step = n;
		}
		if (step == 0) {
			append(b, text + i, 1);
			step = 1;
		}
		i += step;
	}
}

static void
append_json_text(struct buffer *b, struct json v)
{
	size_t len;
	const char *text = json_string(v, &len);

	append_filled(b, text, len);
}

static int64_t
int_of(struct json object, const char *key, int64_t fallback)
{
	int64_t n;

	return json_int64(json_get(object, key), &n) ? n : fallback;
}

static void
append_part(struct buffer *b, struct json part)
{
	size_t len;
	const char *text;

	if (json_is(part, JSON_STRING)) {
		append_json_text(b, part);
	} else if (json_exists(json_get(part, "repeat"))) {
		text = json_string(json_get(part, "repeat"), &len);
		for (int64_t i = int_of(part, "times", 0); i > 0; i--)
			append(b, text, len);
	} else {
		int64_t from = int_of(part, "from", 0), count = int_of(part, "count", 0);
		const char *join = json_string(json_get(part, "join"), NULL);

		text = json_string(json_get(part, "sequence"), NULL);
		for (int64_t i = from; i < from + count; i++) {
			const char *at = strstr(text, "{i}");
			char number[24];

			snprintf(number, sizeof(number), "%lld", (long long)i);
			if (i > from)
				append(
				    b, join == NULL ? "," : join, join == NULL ? 1 : strlen(join));
			append(b, text, (size_t)(at - text));
			append(b, number, strlen(number));
			append(b, at + 3, strlen(at + 3));
		}
	}
}

static void
append_base64(struct buffer *b, struct json v)
{
	size_t len, got;
	const char *text = json_string(v, &len);
	unsigned char *bytes = malloc(len + 1);

	CHECK(sodium_base642bin(
		  bytes, len, text, len, NULL, &got, NULL, sodium_base64_VARIANT_ORIGINAL) == 0);
	append(b, (char *)bytes, got);
	free(bytes);
}

/* The body's bytes as replay.py makes them; false: not to be made here. */
static bool
body_of(struct buffer *b, struct json body)
{
	append(b, "", 0);
	if (json_is(body, JSON_NULL))
		return true;
	if (json_exists(json_get(body, "base64"))) {
		append_base64(b, json_get(body, "base64"));
		return true;
	}
	if (json_exists(json_get(body, "text"))) {
		append_json_text(b, json_get(body, "text"));
		return true;
	}
	json_foreach (part, json_get(body, "parts"))
		append_part(b, part);
	return !json_true(json_get(body, "gzip"));
}

static bool
ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

/* Parses by the path's rule. 1: done, 0: no call with a body. */
static bool
judge(const char *path, struct json_doc *doc, struct faults *f)
{
	static struct request_open open;
	static struct request_save save;
	struct request_render render;
	struct request_train train;

	if (strcmp(path, "/v1/sessions") == 0) {
		request_open_defaults(&open);
		return request_open_parse(doc, &open, f) <= 0;
	}
	if (ends_with(path, "/datums:render"))
		return request_render_parse(doc, &render, f) <= 0;
	if (ends_with(path, "/batches:train"))
		return request_train_parse(doc, &train, f) <= 0;
	if (ends_with(path, "/artifacts:save"))
		return request_save_parse(doc, &save, f) <= 0;
	return false;
}

/* The Content-Type header, or NULL; two of them: no test for here. */
static const char *
content_type_of(struct json headers, size_t *count)
{
	const char *found = NULL;

	*count = 0;
	json_foreach (header, headers) {
		struct json name = json_first(header);

		if (strcasecmp(json_string(name, NULL), "Content-Type") == 0) {
			found = json_string(json_next(name), NULL);
			++*count;
		}
	}
	return found;
}

static bool
same_json(struct json a, struct json b)
{
	size_t len_a = 0, len_b = 0;

	if (json_exists(json_get(b, "$free"))) /* an offset */
		return json_is(a, JSON_NUMBER);
	if (json_is(a, JSON_STRING)) {
		const char *text_a = json_string(a, &len_a), *text_b = json_string(b, &len_b);

		return text_b != NULL && len_a == len_b && memcmp(text_a, text_b, len_a) == 0;
	}
	if (json_is(a, JSON_NUMBER))
		return json_is(b, JSON_NUMBER) &&
		       strcmp(json_number(a, NULL), json_number(b, NULL)) == 0;
	if (json_count(a) != json_count(b))
		return false;
	for (a = json_first(a), b = json_first(b); json_exists(a);
	     a = json_next(a), b = json_next(b))
		if (!same_json(a, b))
			return false;
	return true;
}

static bool
has_error(struct json list, struct json error)
{
	json_foreach (item, list)
		if (same_json(json_get(item, "type"), json_get(error, "type")) &&
		    same_json(json_get(item, "loc"), json_get(error, "loc")))
			return true;
	return false;
}

static bool
same_faults(struct json wanted, const char *detail)
{
	struct json_doc *doc;
	bool same = true;

	if (json_parse(&doc, detail, strlen(detail), NULL) != 0)
		return false;
	json_foreach (error, wanted)
		if (!json_true(json_get(error, "optional")))
			same = same && has_error(json_root(doc), error);
	json_foreach (item, json_root(doc)) {
		bool found = false;

		json_foreach (error, wanted)
			found =
			    found || (same_json(json_get(item, "type"), json_get(error, "type")) &&
					 same_json(json_get(item, "loc"), json_get(error, "loc")));
		same = same && found;
	}
	json_free(doc);
	return same;
}

static bool
status_is(struct json wanted, unsigned status)
{
	int64_t n;

	if (json_int64(wanted, &n))
		return n == (int64_t)status;
	json_foreach (item, wanted)
		if (json_int64(item, &n) && n == (int64_t)status)
			return true;
	return false;
}

/* What the recording says of a body: its faults, a status of the body's own, or that it is valid
   (then the answer speaks of tokens, sessions, slots, uploads). */
static void
check_verdict(struct json test, const struct faults *f, const char *detail)
{
	const char *id = json_string(json_get(test, "id"), NULL);
	bool good = json_true(json_get(test, "reference_only"));
	struct json expect = json_get(test, good ? "good" : "expect");
	struct json status = json_get(expect, "status");
	bool artifact = json_string_is(json_get(test, "group"), "artifact");

	if (json_string_is(json_get(expect, "match"), "errors"))
		CHECK_MSG(
		    faults_status(f) == 422 && same_faults(json_get(expect, "errors"), detail),
		    "%s: %.300s", id, detail);
	else if (good && !artifact && json_count(status) > 1 && !status_is(status, 400))
		return; /* as a service likes */
	else if (good && !artifact && !status_is(status, 200))
		CHECK_MSG(status_is(status, faults_status(f)), "%s: %u %.300s", id,
		    faults_status(f), detail);
	else if (status_is(status, 400))
		CHECK_MSG(faults_status(f) == 400, "%s: %u", id, faults_status(f));
	else
		CHECK_MSG(!faults_any(f), "%s: %.300s", id, detail);
}

static void
check_case(struct json test)
{
	const char *path = json_string(json_get(test, "path"), NULL);
	struct buffer body = {0};
	struct json_doc *doc = NULL;
	struct faults f;
	size_t types;
	const char *type = content_type_of(json_get(test, "headers"), &types);
	char *detail;

	if (types <= 1 && body_of(&body, json_get(test, "body"))) {
		faults_init(&f);
		if (request_body_parse(&doc, request_body_is_json(type), body.data, body.len, &f) ==
		    0)
			CHECK(judge(path, doc, &f));
		detail = faults_detail(&f, NULL);
		check_verdict(test, &f, detail);
		free(detail);
		faults_fini(&f);
		json_free(doc);
	}
	free(body.data);
}

static bool
is_body_case(struct json test)
{
	const char *group = json_string(json_get(test, "group"), NULL);

	return json_string_is(json_get(test, "method"), "POST") &&
	       !json_exists(json_get(test, "raw")) && strcmp(group, "auth") != 0 &&
	       strcmp(group, "route") != 0 && strcmp(group, "framing") != 0;
}

TEST(recorded_bodies)
{
	FILE *file = fopen(cases_path, "r");
	char *line = NULL;
	size_t room = 0, cases = 0;
	ssize_t len;

	CHECK(file != NULL);
	if (file == NULL)
		return;
	while ((len = getline(&line, &room, file)) > 0) {
		struct json_doc *doc;

		CHECK(json_parse(&doc, line, (size_t)len, NULL) == 0);
		if (doc == NULL)
			continue;
		if (is_body_case(json_root(doc))) {
			check_case(json_root(doc));
			cases++;
		}
		json_free(doc);
	}
	CHECK_MSG(cases > 350, "only %zu cases", cases);
	free(line);
	fclose(file);
}

TEST_MAIN(TEST_CASE(recorded_bodies))
