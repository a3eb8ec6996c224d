#include "supervisor/api/request_sign.h"

#include <errno.h>

#include "ipc/fields.h"

int
request_sign_parse(struct json_doc *doc, struct request_sign *out, struct faults *f)
{
	static const int64_t most = INT64_C(8) << 30;
	static const struct integer_range bytes = {.min = 0, .above = true, .max = most};
	static const struct integer_range seconds = {.min = 1, .max = 7 * 86400};
	struct fields s;
	int64_t n;

	*out = (struct request_sign){"", (uint64_t)most, 86400};
	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_hex(&s, "object", NULLABLE, 32, &out->object);
	if (fields_integer(&s, "max_bytes", NULLABLE, &bytes, &n))
		out->max_bytes = (uint64_t)n;
	if (fields_integer(&s, "expires_in", NULLABLE, &seconds, &n))
		out->expires_in = (uint32_t)n;
	return fields_close(&s) ? 0 : -EINVAL;
}
