/*
 * Compares tokenizers with recorded values: golden_tokenizers FOLDER, which has one folder for each
 * tokenizer with tokenizer.json (or a first line in cases.jsonl that names a file of a fetched
 * package), cases.jsonl and decode.jsonl. Prints each difference, then `N passed, N failed`.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "ipc/json.h"
#include "tests/golden/tiktoken.h"
#include "worker/tokenizer/tokenizer.h"

static unsigned passed, failed;

struct set {
	const char *name;
	struct tokenizer *tokenizer;
	const char *test; /* the case at hand */
};

static bool
report(const struct set *set, const char *what, bool good)
{
	if (!good)
		printf("%s/%s: %s differs\n", set->name, set->test, what);
	return good;
}

static char *
read_file(const char *folder, const char *name, size_t *len)
{
	char path[4096], *text = NULL;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
	f = fopen(path, "rb");
	if (f == NULL)
		return NULL;
	if (fstat(fileno(f), &st) == 0 && (text = malloc((size_t)st.st_size + 1)) != NULL) {
		*len = fread(text, 1, (size_t)st.st_size, f);
		text[*len] = '\0';
	}
	fclose(f);
	return text;
}

static void
sha256_hex(char hex[65], const void *data, size_t len)
{
	unsigned char digest[32];

	crypto_hash_sha256(digest, data, len);
	sodium_bin2hex(hex, 65, digest, 32);
}

/* Whether the values are what the case has: in full, as runs, as head and tail, digested. */
static bool
same_numbers(struct json test, const char *key, const uint32_t *values, size_t count)
{
	char name[64], hex[65];
	struct json v = json_get(test, key);
	int64_t want, times;
	size_t at = 0;

	if (json_exists(v)) {
		json_foreach (item, v) {
			bool pair = json_is(item, JSON_ARRAY); /* offsets are pairs */
			struct json one = pair ? json_first(item) : item;

			for (size_t i = 0; i < 1u + pair; i++, one = json_next(one))
				if (!json_int64(one, &want) || at >= count || values[at++] != want)
					return false;
		}
		return at == count;
	}
	snprintf(name, sizeof(name), "%s_runs", key);
	v = json_get(test, name);
	json_foreach (run, v) {
		json_int64(json_first(run), &want);
		json_int64(json_next(json_first(run)), &times);
		for (; times > 0; times--)
			if (at >= count || values[at++] != want)
				return false;
	}
	if (json_exists(v) && at != count)
		return false;
	snprintf(name, sizeof(name), "%s_sha256", key);
	v = json_get(test, name);
	sha256_hex(hex, values, count * sizeof(*values));
	return !json_exists(v) || json_string_is(v, hex);
}

static bool
same_text(struct json test, const char *key, const char *text, size_t len)
{
	char name[64], hex[65];
	struct json v = json_get(test, key);
	size_t want_len;
	const char *want = json_string(v, &want_len);

	if (want != NULL)
		return want_len == len && memcmp(want, text, len) == 0;
	snprintf(name, sizeof(name), "%s_sha256", key);
	v = json_get(test, name);
	sha256_hex(hex, text, len);
	return !json_exists(v) || json_string_is(v, hex);
}

static bool
check_decode(const struct set *set, struct json test, const int32_t *ids, size_t count, bool skip)
{
	const char *key = skip ? "decoded_skip_special" : "decoded";
	char *text;
	size_t len;
	bool good;

	if (skip && !json_exists(json_get(test, key)))
		key = "decoded"; /* recorded once where both are equal */
	if (tokenizer_decode(set->tokenizer, ids, count, skip, &text, &len) != 0)
		return report(set, "decoding fails and so", false);
	good = same_text(test, key, text, len);
	free(text);
	return report(set, skip ? "decoded_skip_special" : "decoded", good);
}

/* The case's text: as it is, or its parts repeated and joined. */
static char *
case_text(struct json test, size_t *len)
{
	const char *text = json_string(json_get(test, "text"), len);
	size_t size = 0, unit_len;
	char *joined;

	if (text != NULL) {
		joined = malloc(*len + 1);
		memcpy(joined, text, *len + 1);
		return joined;
	}
	json_foreach (part, json_get(test, "parts")) {
		int64_t times = 0;

		json_string(json_first(part), &unit_len);
		json_int64(json_next(json_first(part)), &times);
		size += unit_len * (size_t)times;
	}
	joined = malloc(size + 1);
	*len = 0;
	json_foreach (part, json_get(test, "parts")) {
		const char *unit = json_string(json_first(part), &unit_len);
		int64_t times = 0;

		json_int64(json_next(json_first(part)), &times);
		for (; times > 0; times--, *len += unit_len)
			memcpy(joined + *len, unit, unit_len);
	}
	return joined;
}

static bool
check_tokens(const struct set *set, struct json test, const struct token *tokens, size_t count)
{
	uint32_t *numbers = malloc((count + 1) * 2 * sizeof(*numbers));
	bool good;

	for (size_t i = 0; i < count; i++)
		numbers[i] = (uint32_t)tokens[i].id;
	good = report(set, "ids", same_numbers(test, "ids", numbers, count));
	if (good)
		good &= check_decode(set, test, (int32_t *)numbers, count, false) &&
			check_decode(set, test, (int32_t *)numbers, count, true);
	for (size_t i = 0; i < count; i++) {
		numbers[2 * i] = tokens[i].start;
		numbers[2 * i + 1] = tokens[i].end;
	}
	if (json_exists(json_get(test, "offsets")) || json_exists(json_get(test, "offsets_sha256")))
		good &= report(set, "offsets", same_numbers(test, "offsets", numbers, 2 * count));
	free(numbers);
	return good;
}

static bool
check_encode(const struct set *set, struct json test)
{
	struct refusal r = {0};
	struct token *tokens;
	size_t len, count;
	char *text = case_text(test, &len);
	bool good, refused;

	refused = tokenizer_encode(set->tokenizer, text, len, &tokens, &count, &r) != 0;
	free(text);
	if (json_exists(json_get(test, "error")))
		good = report(set, "refusal", refused);
	else if (refused)
		good = report(set, r.text, false);
	else
		good = check_tokens(set, test, tokens, count);
	if (!refused)
		free(tokens);
	return good;
}

static bool
check_decode_line(const struct set *set, struct json test)
{
	struct json list = json_get(test, "ids");
	int32_t *ids = malloc((json_count(list) + 1) * sizeof(*ids));
	size_t count = 0;
	bool good;

	json_foreach (item, list) {
		int64_t id = -1;

		json_int64(item, &id);
		ids[count++] = (int32_t)id;
	}
	good =
	    check_decode(set, test, ids, count, false) && check_decode(set, test, ids, count, true);
	free(ids);
	return good;
}

/* Runs check over the lines of a file. */
static void
check_lines(struct set *set, const char *folder, const char *file,
    bool (*check)(const struct set *, struct json))
{
	size_t len = 0;
	char *text = read_file(folder, file, &len);

	for (char *line = text, *end; line != NULL && line < text + len; line = end + 1) {
		struct json_doc *doc;

		end = memchr(line, '\n', (size_t)(text + len - line));
		if (end == NULL)
			end = text + len;
		if (end == line)
			continue;
		if (json_parse(&doc, line, (size_t)(end - line), NULL) != 0) {
			printf("%s/%s: a line is no JSON\n", set->name, file);
			failed++;
			continue;
		}
		set->test = json_string(json_get(json_root(doc), "name"), NULL);
		if (set->test != NULL)
			*(check(set, json_root(doc)) ? &passed : &failed) += 1;
		json_free(doc);
	}
	free(text);
}

/* A file of a fetched package: build/fetch/<package>-<version>/<path>. */
static int
open_fetched(struct set *set, const char *folder, struct refusal *r)
{
	const char *fetch = getenv("STEPD_FETCH_DIR"), *path, *package;
	char root[2048], name[256];
	size_t len = 0;
	char *cases = read_file(folder, "cases.jsonl", &len), *data = NULL, *p;
	struct json_doc *doc = NULL;
	struct json source;
	int rc = -1;

	if (cases != NULL)
		json_parse(&doc, cases, strcspn(cases, "\n"), NULL);
	source = json_get(json_root(doc), "source");
	path = json_string(json_get(source, "path"), NULL);
	package = json_string(json_get(source, "package"), NULL);
	if (path == NULL || package == NULL) {
		rc = refuse(r, 422, "neither a tokenizer.json nor a source");
	} else {
		snprintf(name, sizeof(name), "%s-%s", package,
		    json_string(json_get(source, "version"), NULL));
		for (p = name; *p != '\0' && p < name + strlen(package); p++)
			if (*p == '-')
				*p = '_';
		snprintf(root, sizeof(root), "%s/%s", fetch != NULL ? fetch : "build/fetch", name);
		data = read_file(root, path, &len);
		if (data == NULL)
			rc = refuse(r, 422, "%s/%s is not there: run tests/fetch.sh", root, path);
		else if (strstr(path, ".gguf") != NULL) {
			struct gguf *file = NULL;

			rc = gguf_open(&file, data, len, path, r);
			if (rc == 0)
				rc = tokenizer_open_gguf(&set->tokenizer, file, r);
			gguf_free(file);
		} else
			rc = tiktoken_open(&set->tokenizer, data, len, root, json_root(doc), r);
	}
	json_free(doc);
	free(cases);
	free(data);
	return rc;
}

static void
check_set(const char *root, const char *name)
{
	char folder[4096];
	struct set set = {.name = name};
	struct refusal r = {0};
	size_t len = 0;
	char *json;
	int rc;

	snprintf(folder, sizeof(folder), "%s/%s", root, name);
	json = read_file(folder, "tokenizer.json", &len);
	rc = json != NULL ? tokenizer_open_json(&set.tokenizer, json, len, &r)
			  : open_fetched(&set, folder, &r);
	free(json);
	if (rc != 0) {
		printf("%s: not supported: %s\n", name, r.text);
		failed++;
		return;
	}
	check_lines(&set, folder, "cases.jsonl", check_encode);
	check_lines(&set, folder, "decode.jsonl", check_decode_line);
	tokenizer_free(set.tokenizer);
}

int
main(int argc, char **argv)
{
	struct dirent **list;
	int count = argc == 2 ? scandir(argv[1], &list, NULL, alphasort) : -1;

	if (count < 0) {
		fprintf(stderr, "usage: golden_tokenizers FOLDER\n");
		return 2;
	}
	for (int i = 0; i < count; i++) {
		char path[4096];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", argv[1], list[i]->d_name);
		if (list[i]->d_name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			check_set(argv[1], list[i]->d_name);
		free(list[i]);
	}
	free(list);
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0 || passed == 0;
}
