#include "ipc/request_render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/fields.h"

enum { ID_MAX = 256, CONTENT_MAX = 2000000, ARGUMENTS_MAX = 1000000, EXAMPLES_MAX = 10000 };

static bool
read_function(struct faults *f, const struct place *at, struct json value)
{
	struct fields s;
	const char *text;

	if (!fields_open(&s, f, at, value))
		return false;
	fields_string(&s, "name", REQUIRED, 1, ID_MAX, &text);
	fields_string(&s, "arguments", REQUIRED, 0, ARGUMENTS_MAX, &text);
	return fields_close(&s);
}

static bool
element_tool_call(struct faults *f, const struct place *at, struct json value, const void *arg)
{
	static const char *const types[] = {"function"};
	const struct place function_at = {at, "function", strlen("function"), 0};
	struct json function;
	struct fields s;
	const char *id;
	unsigned type;

	(void)arg;
	if (!fields_open(&s, f, at, value))
		return false;
	fields_choice(&s, "type", OPTIONAL, types, 1, &type);
	fields_string(&s, "id", REQUIRED, 1, ID_MAX, &id);
	function = fields_value(&s, "function", REQUIRED);
	if (json_exists(function) && !read_function(f, &function_at, function))
		s.valid = false;
	return fields_close(&s);
}

static bool
element_message(struct faults *f, const struct place *at, struct json value, const void *arg)
{
	static const char *const roles[] = {"system", "user", "assistant", "tool"};
	static const struct element_rule calls = {0, SIZE_MAX, element_tool_call, NULL};
	enum { SYSTEM, USER, ASSISTANT, TOOL };
	const char *text, *tool_call_id = NULL, *name = NULL, *wrong = NULL;
	struct json tool_calls = {NULL, 0};
	struct fields s;
	unsigned role = SYSTEM;

	(void)arg;
	if (!fields_open(&s, f, at, value))
		return false;
	fields_choice(&s, "role", REQUIRED, roles, 4, &role);
	fields_string(&s, "content", REQUIRED, 0, CONTENT_MAX, &text);
	fields_list(&s, "tool_calls", OPTIONAL, &calls, &tool_calls);
	fields_string(&s, "tool_call_id", NULLABLE, 1, ID_MAX, &tool_call_id);
	fields_string(&s, "name", NULLABLE, 1, ID_MAX, &name);
	if (!fields_close(&s))
		return false;
	if (json_count(tool_calls) > 0 && role != ASSISTANT)
		wrong = "tool_calls are only valid on assistant messages";
	else if (tool_call_id != NULL && role != TOOL)
		wrong = "tool_call_id is only valid on tool messages";
	else if (name != NULL && role != TOOL)
		wrong = "name is only valid on tool messages";
	if (wrong == NULL)
		return true;
	fields_fault(&s, NULL, "value_error", "Value error, %s", wrong);
	return false;
}

static struct json
last_of(struct json array)
{
	struct json last = {NULL, 0};

	json_foreach (item, array)
		last = item;
	return last;
}

static bool
element_example(struct faults *f, const struct place *at, struct json value, const void *arg)
{
	static const struct element_rule rule = {2, SIZE_MAX, element_message, NULL};
	struct json messages = {NULL, 0};
	struct fields s;
	const char *id;

	(void)arg;
	if (!fields_open(&s, f, at, value))
		return false;
	fields_string(&s, "example_id", REQUIRED, 1, ID_MAX, &id);
	fields_list(&s, "messages", REQUIRED, &rule, &messages);
	if (!fields_close(&s))
		return false;
	if (json_string_is(json_get(last_of(messages), "role"), "assistant"))
		return true;
	fields_fault(&s, NULL, "value_error",
	    "Value error, the final training message must have role assistant");
	return false;
}

static int
compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* 1, 0, or -ENOMEM. Strings with a NUL have been refused with the whole body. */
static int
ids_are_unique(struct json examples)
{
	size_t count = json_count(examples), i = 0;
	const char **ids = calloc(count, sizeof(*ids));
	int unique = 1;

	if (ids == NULL)
		return -ENOMEM;
	json_foreach (example, examples)
		ids[i++] = json_string(json_get(example, "example_id"), NULL);
	qsort(ids, count, sizeof(*ids), compare_ids);
	for (i = 1; i < count; i++)
		if (strcmp(ids[i - 1], ids[i]) == 0)
			unique = 0;
	free(ids);
	return unique;
}

int
request_render_parse(struct json_doc *doc, struct request_render *out, struct faults *f)
{
	static const struct element_rule rule = {1, EXAMPLES_MAX, element_example, NULL};
	struct fields s;

	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	if (fields_list(&s, "examples", REQUIRED, &rule, &out->examples)) {
		int unique = ids_are_unique(out->examples);

		if (unique < 0) {
			faults_refuse(f, 503, "out of memory");
			return unique;
		}
		if (unique == 0)
			fields_fault(&s, "examples", "value_error",
			    "Value error, example_id values must be unique");
	}
	if (!fields_close(&s))
		return -EINVAL;
	out->count = json_count(out->examples);
	return 0;
}

int
request_generate_parse(struct json_doc *doc, struct request_generate *out, struct faults *f)
{
	static const struct element_rule rule = {1, SIZE_MAX, element_message, NULL};
	static const struct integer_range tokens = {.min = 1, .max = 4096};
	struct fields s;
	int64_t n = 64;

	*out = (struct request_generate){.adapter = true};
	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_list(&s, "messages", NULLABLE, &rule, &out->messages);
	fields_string(&s, "prompt", NULLABLE, 1, CONTENT_MAX, &out->prompt);
	fields_integer(&s, "max_new_tokens", NULLABLE, &tokens, &n);
	fields_bool(&s, "adapter", NULLABLE, &out->adapter);
	out->max_new_tokens = (uint32_t)n;
	if (!fields_close(&s))
		return -EINVAL;
	if (json_exists(out->messages) != (out->prompt != NULL))
		return 0;
	fields_fault(&s, NULL, "value_error", "Value error, give either messages or prompt");
	return -EINVAL;
}
