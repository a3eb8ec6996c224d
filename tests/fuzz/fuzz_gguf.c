/* Any bytes: a GGUF header is refused, or all its metadata and tensors can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"
#include "worker/files/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum; /* so that what is read is read */

static void
read_value(const struct gguf *g, const char *key)
{
	struct gguf_array a;
	const char *text;
	uint64_t n;
	int64_t i;
	double f;
	size_t len;
	bool b;

	gguf_uint(g, key, &n);
	gguf_float(g, key, &f);
	gguf_bool(g, key, &b);
	if (gguf_string(g, key, &text, &len) && len != 0)
		sum += (unsigned char)text[0] + (unsigned char)text[len - 1];
	if (gguf_strings(g, key, &a))
		while (gguf_next_string(&a, &text, &len))
			if (len != 0)
				sum += (unsigned char)text[len - 1];
	if (gguf_ints(g, key, &a))
		while (gguf_next_int(&a, &i))
			sum += (unsigned)i;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct gguf_tensor *t;
	struct refusal r;
	struct gguf *g;
	const char *key;
	size_t len;

	if (gguf_open(&g, data, size, "fuzz", &r) != 0) {
		if (g != NULL || r.status < 400)
			abort();
		return 0;
	}
	for (size_t i = 0; gguf_key_at(g, i, &key, &len); i++) {
		char *copy = strndup(key, len);

		read_value(g, copy);
		free(copy);
	}
	for (size_t i = 0; (t = gguf_tensor_at(g, i)) != NULL; i++) {
		const uint8_t *at = t->data;
		float *row;

		if (at < data || at > data + size || t->size > (size_t)(data + size - at) ||
		    gguf_tensor(g, t->name) != t)
			abort();
		row = malloc(t->cols * sizeof(float)); /* at most 8 times the file's bytes */
		dequant_f32((enum dequant_type)t->type, row, at, t->cols);
		free(row);
	}
	gguf_free(g);
	return 0;
}
