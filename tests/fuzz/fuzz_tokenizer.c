/* A tokenizer.json, a NUL, and a text: refused or taken; what is taken encodes the text to tokens
   in its ranges, decodes them, and is written so that it reads back to the same tokens. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "worker/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Texts are short: a pattern may take its time with each start of a match. */
enum { MAX_TEXT = 64 };

static void
check_tokens(const struct tokenizer *t, const struct token *tokens, size_t count, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (tokens[i].id < 0 || (size_t)tokens[i].id >= tokenizer_vocabulary(t) ||
		    tokens[i].start > tokens[i].end || tokens[i].end > len)
			abort();
}

static void
check_again(const struct tokenizer *t, const char *text, size_t len, const struct token *tokens,
    size_t count)
{
	struct json_writer w;
	struct tokenizer *again;
	struct token *second;
	struct refusal r;
	size_t json_len, n;
	const char *json;

	json_writer_init(&w);
	if (tokenizer_write_json(t, &w) != 0)
		abort();
	json = json_writer_text(&w, &json_len);
	if (tokenizer_open_json(&again, json, json_len, &r) != 0)
		abort();
	if (tokenizer_encode(again, text, len, &second, &n, &r) != 0 || n != count ||
	    (n > 0 && memcmp(second, tokens, n * sizeof(*second)) != 0))
		abort();
	free(second);
	tokenizer_free(again);
	json_writer_fini(&w);
}

static void
run(const struct tokenizer *t, const char *text, size_t len)
{
	struct token *tokens;
	struct refusal r;
	size_t count, n;
	int32_t *ids;
	char *back;

	if (tokenizer_encode(t, text, len, &tokens, &count, &r) != 0)
		return;
	check_tokens(t, tokens, count, len);
	ids = malloc((count + 1) * sizeof(*ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = tokens[i].id;
	if (tokenizer_decode(t, ids, count, (len & 1) != 0, &back, &n) == 0)
		free(back);
	free(ids);
	check_again(t, text, len, tokens, count);
	free(tokens);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\0', size);
	size_t json_len = end != NULL ? (size_t)(end - data) : size;
	size_t text_len = end != NULL ? size - json_len - 1 : 0;
	struct tokenizer *t;
	struct refusal r;

	if (tokenizer_open_json(&t, data, json_len, &r) != 0)
		return 0;
	run(t, (const char *)data + size - text_len, text_len < MAX_TEXT ? text_len : MAX_TEXT);
	tokenizer_free(t);
	return 0;
}
