#include "supervisor/api/request_evaluate.h"

#include <errno.h>

#include "ipc/fields.h"

int
request_evaluate_parse(struct json_doc *doc, struct request_evaluate *out, struct faults *f)
{
	static const struct element_rule ids = {1, SIZE_MAX, element_string, NULL};
	struct fields s;

	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_list(&s, "datum_ids", REQUIRED, &ids, &out->datum_ids);
	if (!fields_close(&s))
		return -EINVAL;
	out->count = json_count(out->datum_ids);
	return 0;
}
