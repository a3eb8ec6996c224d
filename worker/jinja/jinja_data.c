#include "worker/jinja/jinja_data.h"

#include <stdlib.h>
#include <string.h>

#include "worker/jinja/jinja_dict.h"
#include "worker/jinja/jinja_int.h"

static struct jinja_value
from_number(struct jinja *j, struct json v)
{
	struct jinja_value out;
	int64_t i;
	double d;
	size_t len;
	const char *text;

	if (json_int64(v, &i))
		return jinja_int(i);
	text = json_number(v, &len);
	if (strspn(text, "-0123456789") == len) {
		if (len > JINJA_DIGITS_MAX)
			jinja_fail(j, JINJA_RUNTIME, "an integer of more than %d digits",
			    JINJA_DIGITS_MAX);
		if (jinja_int_parse(
			j, text + (*text == '-'), len - (*text == '-'), 10, *text == '-', &out))
			return out;
	}
	json_double(v, &d);
	return jinja_float(d);
}

static struct jinja_value
from_string(struct jinja *j, struct json v)
{
	size_t len;
	const char *text = json_string(v, &len);

	if (len > JINJA_MEMORY_MAX)
		jinja_fail(j, JINJA_LIMIT, "a string is too long");
	return jinja_string(text, len);
}

struct jinja_value
jinja_from_json(struct jinja *j, struct json v)
{
	struct jinja_list *list;
	struct jinja_dict *d;

	jinja_pay(j, 0);
	switch (json_type(v)) {
	case JSON_BOOL:
		return jinja_bool(json_true(v));
	case JSON_NUMBER:
		return from_number(j, v);
	case JSON_STRING:
		return from_string(j, v);
	case JSON_ARRAY:
		jinja_enter(j);
		list = jinja_list_new(j, json_count(v));
		json_foreach (item, v)
			jinja_append(j, list, jinja_from_json(j, item));
		jinja_leave(j);
		return JINJA_VALUE(LIST, list, list);
	case JSON_OBJECT:
		jinja_enter(j);
		d = jinja_dict_new(j, json_count(v));
		jinja_dict_from_json(j, d, v, false);
		jinja_leave(j);
		return JINJA_VALUE(DICT, dict, d);
	default:
		return jinja_none();
	}
}

void
jinja_dict_from_json(struct jinja *j, struct jinja_dict *d, struct json object, bool drop_null)
{
	json_foreach (member, object) {
		size_t len;
		const char *key = json_key(member, &len);

		if (!drop_null || json_type(member) != JSON_NULL)
			jinja_dict_set(j, d, jinja_string(key, len), jinja_from_json(j, member));
	}
}

/* Arguments on the wire are JSON in a string; templates want the mapping it holds. A text that
   holds something else stays a string. */
static struct jinja_value
parsed_arguments(struct jinja *j, struct jinja_value arguments)
{
	struct json_doc *doc;
	struct jinja_value out = arguments;
	const char *p = arguments.text;
	struct json root;
	size_t at = 0;

	while (at < arguments.len && strchr(" \t\r\n", p[at]) != NULL && p[at] != '\0')
		at++;
	if (at == arguments.len || p[at] != '{')
		return arguments;
	if (json_parse(&doc, arguments.text, arguments.len, NULL) < 0)
		return arguments;
	root = json_root(doc);
	jinja_hold(j, doc);
	if (json_is(root, JSON_OBJECT))
		out = jinja_from_json(j, root);
	return out;
}

static void
parse_tool_calls(struct jinja *j, struct jinja_value calls)
{
	if (calls.type != JINJA_LIST)
		return;
	for (size_t i = 0; i < calls.list->count; i++) {
		struct jinja_value *function = NULL, *arguments = NULL;

		if (calls.list->at[i].type == JINJA_DICT)
			function = jinja_dict_get_text(j, calls.list->at[i].dict, "function");
		if (function != NULL && function->type == JINJA_DICT)
			arguments = jinja_dict_get_text(j, function->dict, "arguments");
		if (arguments != NULL && arguments->type == JINJA_STRING)
			*arguments = parsed_arguments(j, *arguments);
	}
}

/* reasoning_content is what the first of the three names has; thinking is filled from it, in front
   of the other keys where the message has none. */
static struct jinja_dict *
with_reasoning(struct jinja *j, struct jinja_dict *message)
{
	static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
	struct jinja_value *found = NULL, reasoning;
	struct jinja_dict *out;

	for (size_t i = 0; found == NULL && i < 3; i++)
		found = jinja_dict_get_text(j, message, names[i]);
	if (found == NULL)
		return message;
	reasoning = *found;
	out = jinja_dict_new(j, message->count + 2);
	jinja_dict_set_text(j, out, "thinking", reasoning);
	for (size_t i = 0; i < message->count; i++)
		jinja_dict_set(j, out, message->entries[i].key, message->entries[i].value);
	jinja_dict_set_text(j, out, "reasoning_content", reasoning);
	return out;
}

struct jinja_value
jinja_messages(struct jinja *j, struct json messages, size_t count, bool parse)
{
	size_t there = json_count(messages);
	struct jinja_list *list = jinja_list_new(j, count < there ? count : there);

	if (count == 0 || there == 0)
		jinja_fail(j, JINJA_RUNTIME, "the conversation is empty");
	json_foreach (message, messages) {
		struct jinja_dict *d = jinja_dict_new(j, json_count(message) + 1);
		struct jinja_value *calls;

		if (count-- == 0)
			break;
		jinja_dict_from_json(j, d, message, true);
		calls = jinja_dict_get_text(j, d, "tool_calls");
		if (parse && calls != NULL)
			parse_tool_calls(j, *calls);
		jinja_append(j, list, JINJA_VALUE(DICT, dict, with_reasoning(j, d)));
	}
	return JINJA_VALUE(LIST, list, list);
}
