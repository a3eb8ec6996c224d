#include "supervisor/api/request_verify.h"

#include <errno.h>

#include "ipc/fields.h"
#include "supervisor/transfer/url_field.h"

int
request_verify_parse(struct json_doc *doc, struct request_verify *out, struct faults *f)
{
	static const char *const kinds[] = {"state", "sampling"};
	static const struct integer_range size = {.min = 0, .above = true, .max = INT64_MAX};
	struct fields s;
	unsigned kind = 0;
	int64_t n;

	*out = (struct request_verify){0};
	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_choice(&s, "kind", REQUIRED, kinds, 2, &kind);
	fields_url(&s, "download_url", REQUIRED, &out->download_url);
	fields_hex(&s, "sha256", NULLABLE, 64, &out->sha256);
	if (fields_integer(&s, "size_bytes", NULLABLE, &size, &n))
		out->size_bytes = (uint64_t)n;
	out->kind = kind == 0 ? ARTIFACT_STATE : ARTIFACT_SAMPLING;
	return fields_close(&s) ? 0 : -EINVAL;
}
