/*
 * Any bytes as a chat template, rendered over a conversation with every kind of value. Nothing may
 * crash, read beyond what it was given, or run without end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/text/template.h"

static const char conversation[] =
    "[{\"role\": \"system\", \"content\": \"You h\xc3\xa9lp.\"}, {\"role\": \"user\", \"content\": "
    "\"<b> 'q' \\\"x\\\" \\n two\", \"n\": 3}, {\"role\": \"assistant\", \"content\": null, "
    "\"reasoning\": \"why\", \"tool_calls\": [{\"type\": \"function\", \"id\": \"1\", "
    "\"function\": "
    "{\"name\": \"f\", \"arguments\": \"{\\\"k\\\": [1.5, null, true, {}], \\\"s\\\": "
    "\\\"v\\\"}\"}}]}, "
    "{\"role\": \"tool\", \"content\": \"12345678901234567890\"}, {\"role\": \"assistant\", "
    "\"content\": \"done\"}]";
static const char variables[] =
    "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"x\": {\"a\": [1, -2, 3.5], \"b\": {}}, "
    "\"now\": \"2026-11-30T09:08:07\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_doc *messages, *values;
	struct chat_template *t;
	struct refusal r;
	char *text;
	size_t len;

	if (messages == NULL &&
	    (json_parse(&messages, conversation, sizeof(conversation) - 1, NULL) != 0 ||
		json_parse(&values, variables, sizeof(variables) - 1, NULL) != 0))
		abort();
	if (chat_template_compile(&t, (const char *)data, size, &r) != 0)
		return 0;
	for (size_t count = 4; count < 6; count++)
		if (chat_template_render(t, json_root(messages), count, count == 4,
			json_root(values), &text, &len, &r) == 0)
			free(text);
	chat_template_free(t);
	return 0;
}
