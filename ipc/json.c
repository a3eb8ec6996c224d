#include "ipc/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_doc.h"

void
json_free(struct json_doc *doc)
{
	if (doc == NULL)
		return;
	free(doc->nodes);
	free(doc->text);
	free(doc);
}

struct json
json_root(const struct json_doc *doc)
{
	return (struct json){doc, 0};
}

unsigned
json_doc_flags(const struct json_doc *doc)
{
	return doc->flags;
}

static const struct node *
node_of(struct json v)
{
	return v.doc == NULL ? NULL : &v.doc->nodes[v.at];
}

bool
json_exists(struct json v)
{
	return v.doc != NULL;
}

enum json_type
json_type(struct json v)
{
	return v.doc == NULL ? JSON_NULL : (enum json_type)node_of(v)->type;
}

bool
json_is(struct json v, enum json_type type)
{
	return v.doc != NULL && node_of(v)->type == type;
}

static bool
is_container(struct json v)
{
	return json_is(v, JSON_ARRAY) || json_is(v, JSON_OBJECT);
}

size_t
json_count(struct json v)
{
	return is_container(v) ? node_of(v)->len : 0;
}

struct json
json_first(struct json v)
{
	if (json_count(v) == 0)
		return (struct json){NULL, 0};
	return (struct json){v.doc, v.at + 1};
}

struct json
json_next(struct json v)
{
	const struct node *n = node_of(v);

	if (n == NULL || n->next == 0)
		return (struct json){NULL, 0};
	return (struct json){v.doc, n->next};
}

const char *
json_key(struct json member, size_t *len)
{
	const struct node *n = node_of(member);

	if (n == NULL || n->key_len == NO_KEY)
		return NULL;
	if (len != NULL)
		*len = n->key_len;
	return member.doc->text + n->key;
}

struct json
json_get(struct json object, const char *key)
{
	struct json found = {NULL, 0};
	size_t want = strlen(key), len = 0;

	if (!json_is(object, JSON_OBJECT))
		return found;
	json_foreach (member, object) {
		const char *name = json_key(member, &len);

		if (len == want && memcmp(name, key, len) == 0)
			found = member;
	}
	return found;
}

const char *
json_string(struct json v, size_t *len)
{
	if (!json_is(v, JSON_STRING))
		return NULL;
	if (len != NULL)
		*len = node_of(v)->len;
	return v.doc->text + node_of(v)->text;
}

const char *
json_number(struct json v, size_t *len)
{
	if (!json_is(v, JSON_NUMBER))
		return NULL;
	if (len != NULL)
		*len = node_of(v)->len;
	return v.doc->text + node_of(v)->text;
}

bool
json_true(struct json v)
{
	return json_is(v, JSON_BOOL) && node_of(v)->truth;
}

bool
json_int64(struct json v, int64_t *out)
{
	const char *text = json_number(v, NULL);
	char *end;
	long long value;

	if (text == NULL)
		return false;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0')
		return false;
	*out = value;
	return true;
}

bool
json_double(struct json v, double *out)
{
	const char *text = json_number(v, NULL);

	if (text == NULL)
		return false;
	*out = strtod(text, NULL);
	return true;
}

bool
json_string_is(struct json v, const char *text)
{
	size_t len = 0;
	const char *s = json_string(v, &len);

	return s != NULL && len == strlen(text) && memcmp(s, text, len) == 0;
}
