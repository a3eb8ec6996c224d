#include "ipc/request_body.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

bool
request_body_is_json(const char *content_type)
{
	static const char application[] = "application/";
	const char *end, *subtype;
	size_t len;

	if (content_type == NULL)
		return false;
	content_type += strspn(content_type, " \t");
	end = content_type + strcspn(content_type, ";");
	while (end > content_type && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (strncasecmp(content_type, application, strlen(application)) != 0)
		return false;
	subtype = content_type + strlen(application);
	if (end <= subtype || memchr(subtype, '/', (size_t)(end - subtype)) != NULL)
		return false;
	len = (size_t)(end - subtype);
	if (len == 4 && strncasecmp(subtype, "json", 4) == 0)
		return true;
	return len >= 5 && strncasecmp(end - 5, "+json", 5) == 0;
}

static void
parse_fault(struct faults *f, const struct json_error *error)
{
	struct place at = {&place_body, NULL, 0, error->offset};

	switch (error->fault) {
	case JSON_FAULT_SYNTAX:
		faults_add(f, &at, "json_invalid", "JSON decode error: %s", error->what);
		break;
	case JSON_FAULT_UTF8:
		faults_refuse(f, 400, "the request body is not valid UTF-8");
		break;
	case JSON_FAULT_DEPTH:
		faults_refuse(f, 413, "the request body is nested deeper than 64 levels");
		break;
	case JSON_FAULT_MEMORY:
		faults_refuse(f, 503, "there is no memory for the request body now");
		break;
	case JSON_FAULT_SIZE:
		faults_refuse(f, 413, "the request body holds too many values");
		break;
	}
}

static void
flags_fault(struct faults *f, unsigned flags)
{
	if (flags & JSON_HAS_SURROGATE)
		faults_refuse(f, 422, "a string of the request body has a lone surrogate");
	else if (flags & JSON_HAS_NUL)
		faults_refuse(f, 422, "a string of the request body has a NUL character");
	else if (flags & JSON_HAS_NONFINITE)
		faults_refuse(f, 422, "a number of the request body is not finite");
}

int
request_body_parse(
    struct json_doc **out, bool is_json, const void *data, size_t len, struct faults *f)
{
	struct json_error error;
	struct json root;

	*out = NULL;
	if (len == 0) {
		faults_add(f, &place_body, "missing", "Field required");
		return -EINVAL;
	}
	if (!is_json) {
		faults_add(f, &place_body, "model_attributes_type",
		    "Input should be a valid dictionary or object to extract fields from; send it "
		    "with Content-Type: application/json");
		return -EINVAL;
	}
	if (json_parse(out, data, len, &error) != 0) {
		parse_fault(f, &error);
		return -EINVAL;
	}
	flags_fault(f, json_doc_flags(*out));
	root = json_root(*out);
	if (faults_any(f))
		;
	else if (json_is(root, JSON_NULL))
		faults_add(f, &place_body, "missing", "Field required");
	else if (!json_is(root, JSON_OBJECT))
		faults_add(f, &place_body, "model_attributes_type",
		    "Input should be a valid dictionary or object to extract fields from");
	if (!faults_any(f))
		return 0;
	json_free(*out);
	*out = NULL;
	return -EINVAL;
}
