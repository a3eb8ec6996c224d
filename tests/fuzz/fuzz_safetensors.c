/* Any bytes: a header is refused, or every tensor lies inside the file and is found by its name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct safetensors_tensor *t;
	struct safetensors *s;
	uint64_t bytes = 0;
	char why[100];

	if (safetensors_open(&s, data, size, why, sizeof(why)) != 0) {
		if (s != NULL || strlen(why) >= sizeof(why))
			abort();
		return 0;
	}
	for (size_t i = 0; (t = safetensors_at(s, i)) != NULL; i++) {
		const uint8_t *at = t->data;

		if (at < data + 8 || at > data + size || t->size > (size_t)(data + size - at) ||
		    t->count * safetensors_dtype_size(t->dtype) != t->size ||
		    safetensors_find(s, t->name) != t)
			abort();
		if (safetensors_first_nonfinite(t) > t->count)
			abort();
		bytes += t->size;
	}
	if (bytes > size)
		abort();
	safetensors_metadata(s, "format");
	safetensors_free(s);
	return 0;
}
