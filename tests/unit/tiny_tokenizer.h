/*
 * A small byte-level tokenizer.json for tests: the 256 bytes are ids 0 to 255, in order; then come
 * the tokens that the merges make. Every field can be replaced by a test.
 */
#ifndef TESTS_UNIT_TINY_TOKENIZER_H
#define TESTS_UNIT_TINY_TOKENIZER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/tokenizer.h"

struct tiny {
	const char *merges; /* "a a|aa aa": each makes the next id from 256 on */
	const char *vocab;  /* more members: ",\"x\":300" */
	const char *added;  /* an array */
	const char *steps;  /* more fields: "\"normalizer\":...," */
	const char *model;  /* more fields of the model: "\"ignore_merges\":true," */
};

#define TINY_BYTES                                                                                 \
	"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":"      \
	"false},"                                                                                  \
	"\"decoder\":{\"type\":\"ByteLevel\"},"

static inline void
tiny_put(struct json_writer *w, const char *text)
{
	w->comma = false;
	json_write_raw(w, text, strlen(text));
	w->comma = false;
}

/* The tokenizer.json; free it. */
static inline char *
tiny_json(const struct tiny *t)
{
	struct json_writer w;
	const char *merges = t->merges != NULL ? t->merges : "";
	unsigned id = 256;
	char text[512];
	size_t n;

	json_writer_init(&w);
	tiny_put(&w, "{");
	tiny_put(&w, t->steps != NULL ? t->steps : TINY_BYTES);
	tiny_put(&w, "\"added_tokens\":");
	tiny_put(&w, t->added != NULL ? t->added : "[]");
	tiny_put(&w, ",\"model\":{\"type\":\"BPE\",");
	tiny_put(&w, t->model != NULL ? t->model : "");
	tiny_put(&w, "\"vocab\":{");
	for (unsigned i = 0; i < 256; i++) {
		n = glyph_put(text, (unsigned char)i);
		w.comma = i > 0;
		json_write_key_n(&w, text, n);
		json_write_uint(&w, i);
	}
	for (const char *m = merges; *m != '\0'; m += strcspn(m, "|"), m += *m == '|') {
		n = 0;
		for (const char *p = m; *p != '|' && *p != '\0'; p++)
			if (*p != ' ')
				text[n++] = *p;
		w.comma = true;
		json_write_key_n(&w, text, n);
		json_write_uint(&w, id++);
	}
	tiny_put(&w, t->vocab != NULL ? t->vocab : "");
	tiny_put(&w, "},\"merges\":[");
	for (const char *m = merges; *m != '\0'; m += strcspn(m, "|"), m += *m == '|') {
		w.comma = m != merges;
		json_write_string_n(&w, m, strcspn(m, "|"));
	}
	tiny_put(&w, "]}}");
	return json_writer_take(&w, NULL);
}

static inline int
tiny_open(struct tokenizer **out, const struct tiny *t, struct refusal *r)
{
	char *json = tiny_json(t);
	int rc = tokenizer_open_json(out, json, strlen(json), r);

	free(json);
	return rc;
}

/* "id@start-end ..." of a text's tokens, or the refusal. */
static inline const char *
tiny_encode(const struct tokenizer *t, const char *text, size_t len)
{
	static char out[8192];
	struct token *tokens;
	struct refusal r = {0};
	size_t count, n = 0;

	out[0] = '\0';
	if (tokenizer_encode(t, text, len, &tokens, &count, &r) != 0) {
		snprintf(out, sizeof(out), "refused: %s", r.text);
		return out;
	}
	for (size_t i = 0; i < count && n < sizeof(out) - 64; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d@%u-%u", i > 0 ? " " : "",
		    tokens[i].id, tokens[i].start, tokens[i].end);
	free(tokens);
	return out;
}

#endif
