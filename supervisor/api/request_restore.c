#include "supervisor/api/request_restore.h"

#include <errno.h>

#include "ipc/fields.h"
#include "supervisor/transfer/url_field.h"

int
request_restore_parse(struct json_doc *doc, struct request_restore *out, struct faults *f)
{
	struct fields s;

	*out = (struct request_restore){0};
	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_url(&s, "restore_url", NULLABLE, &out->restore_url);
	return fields_close(&s) ? 0 : -EINVAL;
}
