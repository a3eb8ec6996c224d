#include "supervisor/transfer/url_field.h"

#include <string.h>

#define NOT_HTTPS "Value error, %s must use HTTPS"

void
url_fault_plain(struct faults *f, const char *key)
{
	struct place at = {&place_body, key, strlen(key), 0};

	faults_add(f, &at, "value_error", NOT_HTTPS, key);
}

bool
fields_url(struct fields *s, const char *key, enum need need, struct url *out)
{
	struct json value = fields_value(s, key, need);
	size_t len = 0;
	const char *text = json_string(value, &len);
	struct url url;

	if (!json_exists(value))
		return false;
	if (text == NULL) {
		fields_fault(s, key, "url_type", "URL input should be a string or URL");
		return false;
	}
	switch (url_parse(&url, text, len)) {
	case URL_OK:
		*out = url;
		return true;
	case URL_TOO_LONG:
		fields_fault(
		    s, key, "url_too_long", "URL should have at most %d characters", URL_GIVEN_MAX);
		break;
	case URL_PARSING:
		fields_fault(s, key, "url_parsing", "Input should be a valid URL");
		break;
	case URL_SCHEME:
		fields_fault(s, key, "url_scheme", "URL scheme should be 'https'");
		break;
	case URL_NOT_HTTPS:
		fields_fault(s, key, "value_error", NOT_HTTPS, key);
		break;
	}
	return false;
}
