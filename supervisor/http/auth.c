#include "supervisor/http/auth.h"

#include <string.h>

#include "supervisor/http/http.h"
#include "supervisor/http/tokens.h"

const char *
auth_name(const struct http_request *r, const struct tokens *tokens)
{
	static const char scheme[] = "Bearer ";
	const char *value = http_header(r, "authorization");

	if (value == NULL || http_header_count(r, "authorization") != 1 ||
	    strncmp(value, scheme, sizeof(scheme) - 1) != 0)
		return NULL;
	return tokens_find(tokens, value + sizeof(scheme) - 1);
}
