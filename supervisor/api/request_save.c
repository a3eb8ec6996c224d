#include "supervisor/api/request_save.h"

#include <errno.h>

#include "ipc/fields.h"
#include "supervisor/transfer/url_field.h"

int
request_save_parse(struct json_doc *doc, struct request_save *out, struct faults *f)
{
	static const char *const kinds[] = {"state", "sampling"};
	struct fields s;
	unsigned kind = 0;

	*out = (struct request_save){0};
	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_choice(&s, "kind", REQUIRED, kinds, 2, &kind);
	fields_string(&s, "name", REQUIRED, 1, 512, &out->name);
	fields_url(&s, "upload_url", REQUIRED, &out->upload_url);
	fields_url(&s, "restore_url", NULLABLE, &out->restore_url);
	out->kind = kind == 0 ? ARTIFACT_STATE : ARTIFACT_SAMPLING;
	return fields_close(&s) ? 0 : -EINVAL;
}
