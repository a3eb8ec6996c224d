#include "supervisor/api/request_train.h"

#include <errno.h>
#include <math.h>

#include "ipc/fields.h"

int
request_train_parse(struct json_doc *doc, struct request_train *out, struct faults *f)
{
	static const struct element_rule ids = {1, SIZE_MAX, element_string, NULL};
	static const struct number_range rate = {.min = 0, .above = true, .max = INFINITY};
	struct fields s;

	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	fields_list(&s, "datum_ids", REQUIRED, &ids, &out->datum_ids);
	fields_number(&s, "learning_rate", REQUIRED, &rate, &out->learning_rate);
	if (!fields_close(&s))
		return -EINVAL;
	out->count = json_count(out->datum_ids);
	return 0;
}
