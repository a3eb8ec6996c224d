/* Any bytes: the JSON reader takes or refuses them, and what it took reads back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json.h"
#include "ipc/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
written(const struct json_doc *doc, size_t *len)
{
	struct json_writer w;

	json_writer_init(&w);
	json_write_value(&w, json_root(doc));
	return json_writer_take(&w, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_doc *doc, *again;
	struct json_error error;
	size_t first_len, second_len;
	char *first, *second;

	if (json_parse(&doc, data, size, &error) != 0) {
		if (error.byte > size || error.offset > error.byte)
			abort();
		return 0;
	}
	first = written(doc, &first_len);
	/* A lone surrogate is written as U+FFFD and NaN as null, so the first writing may differ.
	 */
	if (json_parse(&again, first, first_len, NULL) != 0)
		abort();
	second = written(again, &second_len);
	if (first_len != second_len || memcmp(first, second, first_len) != 0)
		abort();
	free(first);
	free(second);
	json_free(again);
	json_free(doc);
	return 0;
}
